import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { options, venv } from "../../../../tests/fakes/python-fixture.ts";
import {
  batchOf,
  bytes,
  EMPTY_CONFIG,
  int32,
  int32Values,
  sourceOf,
  TestRequest,
  textOf,
} from "../../../../tests/fakes/python-models.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import type { ModelSource } from "../backend.ts";
import { createPythonBackend } from "./python-backend.ts";

const environment = { ...process.env, NEREID_PYTHON: venv.python };
const INSTANCE = { name: "m_0_0", kind: "KIND_CPU", deviceId: 0 } as const;
const DECOUPLED: ModelConfig = { ...EMPTY_CONFIG, model_transaction_policy: { decoupled: true } };

/** An engine with the interface of vLLM that says the prompt's words in capitals, one more with each step. */
const STAND_IN = `
from types import SimpleNamespace as Namespace
class SamplingParams:
    def __init__(self, max_tokens=16):
        self.max_tokens = max_tokens
class AsyncEngineArgs(Namespace):
    pass
class AsyncLLMEngine:
    @classmethod
    def from_engine_args(cls, arguments):
        assert arguments.model == "tiny"
        return cls()
    async def generate(self, prompt, sampling, number):
        words = prompt.upper().split()[: sampling.max_tokens]
        for count in range(1, len(words) + 1):
            yield Namespace(outputs=[Namespace(index=0, text=" ".join(words[:count]))])
`;

async function vllmSource(): Promise<ModelSource> {
  const source = await sourceOf("", { config: DECOUPLED });
  writeFileSync(join(source.modelFolder, "vllm.py"), STAND_IN);
  writeFileSync(join(source.versionFolder, "model.json"), '{"model": "tiny"}');
  return source;
}

for (const name of ["vllm", "pytorch"]) {
  test(`a model of backend ${name} says which package is missing and how to get it`, options, async () => {
    const expected = name === "vllm" ? "vllm" : "torch";
    // Also where the interpreter has it.
    const folder = mkdtempSync(join(tmpdir(), "nereid-missing-"));
    writeFileSync(join(folder, `${expected}.py`), `raise ModuleNotFoundError("missing", name="${expected}")`);
    const without = { ...environment, PYTHONPATH: folder };
    const backend = createPythonBackend({ name, environment: without });
    const model = await backend.load(await sourceOf("", { config: DECOUPLED }));
    await assert.rejects(model.createInstance(INSTANCE), {
      message: new RegExp(
        `models of backend '${name}' need the Python package '${expected}', which .* -m pip install ${expected}`,
      ),
    });
  });
}

test("`describe()` gives the inputs and outputs of vLLM models", options, async () => {
  const described = await createPythonBackend({ name: "vllm", environment }).describe?.(await vllmSource());
  assert.deepEqual(
    [
      described?.inputs.map((input) => input.name),
      described?.outputs.map((output) => output.name),
      described?.decoupled,
    ],
    [["text_input", "stream", "sampling_parameters", "exclude_input_in_output"], ["text_output"], true],
  );
});

const TRUE = { datatype: "BOOL", shape: [1], data: Uint8Array.of(1) } as const;
const ANSWERS: readonly (readonly [string, TestRequest["request"]["inputs"], readonly string[]])[] = [
  ["the input before the text", [], ["one two threeONE TWO THREE"]],
  ["the text alone", [{ name: "exclude_input_in_output", ...TRUE }], ["ONE TWO THREE"]],
  ["the text piece by piece", [{ name: "stream", ...TRUE }], ["ONE", " TWO", " THREE"]],
  [
    "as much text as asked for",
    [{ name: "stream", ...TRUE }, bytes("sampling_parameters", '{"max_tokens": 2}')],
    ["ONE", " TWO"],
  ],
];
for (const [what, inputs, expected] of ANSWERS) {
  test(`a model of backend vllm gives ${what}`, options, async (t) => {
    const instance = await (
      await createPythonBackend({ name: "vllm", environment }).load(await vllmSource())
    ).createInstance(INSTANCE);
    t.after(() => instance.close());
    const request = new TestRequest([bytes("text_input", "one two three"), ...inputs], {}, ["text_output"]);
    await instance.execute(batchOf([request]));
    await request.ended;
    const texts = request.responses.flatMap(({ outputs }) => outputs.map(textOf));
    assert.deepEqual([texts, request.errorText], [expected, undefined]);
  });
}

test("a folder of backends comes before what is built in", options, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "nereid-backends-"));
  mkdirSync(join(folder, "vllm", "utils"), { recursive: true });
  writeFileSync(join(folder, "vllm", "utils", "factor.py"), "FACTOR = 3");
  writeFileSync(
    join(folder, "vllm", "model.py"),
    `
import numpy as np
import c_python_backend_utils as c_utils
import triton_python_backend_utils as pb_utils
from utils.factor import FACTOR
assert c_utils.Tensor is pb_utils.Tensor and c_utils.MetricFamily is pb_utils.MetricFamily
assert c_utils.shared_memory.free_memory() == c_utils.shared_memory.free_memory()
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy() * FACTOR)]) for r in requests]
`,
  );
  const source = await sourceOf("", { settings: new Map([["backend-directory", folder]]) });
  const instance = await (await createPythonBackend({ name: "vllm", environment }).load(source)).createInstance(
    INSTANCE,
  );
  t.after(() => instance.close());
  const request = new TestRequest([int32("IN", [2])]);
  await instance.execute(batchOf([request]));
  assert.deepEqual(int32Values(request.responses[0]?.outputs[0]), [6], request.errorText);
});
