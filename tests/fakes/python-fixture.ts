/** Loads Python models for tests, with the interpreter and the imports that nearly all of them need. */
import process from "node:process";
import type { TestContext } from "node:test";
import type { Backend, ModelInstance, ModelSource } from "../../server/src/backend/backend.ts";
import { createPythonBackend } from "../../server/src/backend/python/python-backend.ts";
import { type PythonVenv, pythonVenv } from "../python-venv.ts";
import { batchOf, EMPTY_CONFIG, sourceOf, type TestRequest, type TestSource } from "./python-models.ts";

/** NEREID_TEST_PYTHON: another interpreter with numpy, for the same tests with each version of Python. */
const named: string | undefined = process.env.NEREID_TEST_PYTHON;
export const venv: PythonVenv = named === undefined ? await pythonVenv(["numpy"]) : { python: named };
/** Options of tests that run Python: skipped by name if that is impossible. */
export const options: { readonly skip: string | false; readonly timeout: number } = {
  skip: venv.reason ?? false,
  timeout: 60_000,
};
export const backend: Backend = createPythonBackend({ environment: { ...process.env, NEREID_PYTHON: venv.python } });
export const DECOUPLED: Partial<ModelSource> = {
  config: { ...EMPTY_CONFIG, model_transaction_policy: { decoupled: true } },
};
const HEAD = `
import asyncio, json, os, sys, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils
def given(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()
def answer(values):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(values, dtype=np.int32))])
def text(value):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([value.encode()], dtype=np.object_))])
`;

export interface Loaded {
  readonly instance: ModelInstance;
  readonly source: TestSource;
}

/** Loads `class TritonPythonModel` with this body; the test's end unloads it. */
export async function load(t: TestContext, body: string, changes: Partial<ModelSource> = {}): Promise<Loaded> {
  const source = await sourceOf(`${HEAD}\nclass TritonPythonModel:\n${body.replaceAll(/^/gm, "    ")}`, changes);
  const model = await backend.load(source);
  const instance = await model.createInstance({ name: "m_0_0", kind: "KIND_CPU", deviceId: 0 });
  t.after(() => instance.close());
  return { instance, source };
}

/** Runs a batch of one to the end of its request. */
export async function runOne(instance: ModelInstance, request: TestRequest): Promise<TestRequest> {
  await instance.execute(batchOf([request]));
  await request.ended;
  return request;
}
