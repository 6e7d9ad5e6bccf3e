/** Models whose traces are looked at: one alone, an ensemble of two steps, a model that calls another. */
import process from "node:process";
import type { TestContext } from "node:test";
import { createModelRepository } from "../support/model-repository.ts";
import { clientVenv } from "../support/python-checks.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const TENSORS = `
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]`;

const IDENTITY: Readonly<Record<string, string>> = {
  "same/config.pbtxt": `backend: "identity" ${TENSORS}`,
  "other/config.pbtxt": `backend: "identity" ${TENSORS}`,
  "both/config.pbtxt": `platform: "ensemble" ${TENSORS}
    ensemble_scheduling { step [
      { model_name: "same" model_version: -1
        input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "between" } },
      { model_name: "other" model_version: -1
        input_map { key: "INPUT0" value: "between" } output_map { key: "OUTPUT0" value: "OUTPUT0" } } ] }`,
};

const CALLER: Readonly<Record<string, string>> = {
  "caller/config.pbtxt": `backend: "python" ${TENSORS}`,
  "caller/1/model.py": `
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            trace = request.trace()
            pb_utils.Logger.log_info("context " + str(trace.get_context()))
            for given in (trace, None):
                answer = pb_utils.InferenceRequest(model_name="same", requested_output_names=["OUTPUT0"],
                    inputs=request.inputs(), trace=given).exec()
            responses.append(pb_utils.InferenceResponse(output_tensors=answer.output_tensors()))
        return responses
`,
};

/** The test's end ends the server too. */
export async function startTracedServer(
  t: TestContext,
  flags: readonly string[],
  {
    withPython = false,
    env: more = {},
  }: { readonly withPython?: boolean; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<ServerProcess> {
  const repository = await createModelRepository({ files: withPython ? { ...IDENTITY, ...CALLER } : IDENTITY });
  t.after(() => repository[Symbol.asyncDispose]());
  const env = { ...process.env, NEREID_PYTHON: clientVenv.python, ...more };
  const server = await startServerProcess({ repositories: [repository.path], flags, env });
  t.after(() => server.kill());
  return server;
}

export async function infer(
  server: ServerProcess,
  model: string,
  more: { readonly id?: string; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<void> {
  const inputs = [{ name: "INPUT0", datatype: "INT32", shape: [3], data: [1, -2, 3] }];
  const response = await fetch(`${server.baseUrl}/v2/models/${model}/infer`, {
    method: "POST",
    headers: more.headers ?? {},
    body: JSON.stringify({ ...(more.id === undefined ? {} : { id: more.id }), inputs }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${model} answered ${response.status}: ${text}`);
}
