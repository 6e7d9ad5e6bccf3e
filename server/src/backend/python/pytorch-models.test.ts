import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { venv } from "../../../../tests/fakes/python-fixture.ts";
import { batchOf, EMPTY_CONFIG, int32, sourceOf, TestRequest } from "../../../../tests/fakes/python-models.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { createPythonBackend } from "./python-backend.ts";

const python = process.env.NEREID_TORCH_PYTHON ?? venv.python ?? "python3";
const options = {
  skip: hasTorch() ? false : `${python} has no torch: name one that has it in NEREID_TORCH_PYTHON`,
  timeout: 600_000,
};
const environment = { ...process.env, NEREID_PYTHON: python };
const INSTANCE = { name: "m_0_0", kind: "KIND_CPU", deviceId: 0 } as const;
const CONFIG: ModelConfig = {
  ...EMPTY_CONFIG,
  backend: "pytorch",
  input: [tensorConfig("B__1"), tensorConfig("A__0")],
  output: [tensorConfig("QUOTIENT__1"), tensorConfig("DIFFERENCE__0")],
};
const MODULE = `
import torch
class Difference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([SCALE]))
    def forward(self, a: torch.Tensor, b: torch.Tensor):
        return (a - b) * self.scale, a / b
`;

function hasTorch(): boolean {
  try {
    execFileSync(python, ["-c", "import torch, numpy"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

type TensorConfig = ModelConfig["input"][number] & ModelConfig["output"][number];

function tensorConfig(name: string): TensorConfig {
  const empty = {
    format: "FORMAT_NONE",
    is_shape_tensor: false,
    allow_ragged_batch: false,
    optional: false,
    is_non_linear_format_io: false,
  };
  return { name, data_type: "TYPE_INT32", dims: [-1], label_filename: "", ...empty } as TensorConfig;
}

const STYLES: readonly (readonly [string, (folder: string) => void])[] = [
  [
    "TorchScript",
    (folder) => {
      const code = `${MODULE.replace("SCALE", "2.0")}\ntorch.jit.script(Difference()).save(${JSON.stringify(join(folder, "model.pt"))})`;
      writeFileSync(join(folder, "make.py"), code);
      execFileSync(python, [join(folder, "make.py")]);
    },
  ],
  [
    "a module class with its weights",
    (folder) => {
      const weights = `torch.save({"scale": torch.tensor([2.0])}, ${JSON.stringify(join(folder, "model.pt"))})`;
      execFileSync(python, ["-c", `import torch\n${weights}`]);
      writeFileSync(join(folder, "model.py"), MODULE.replace("SCALE", "7.0"));
    },
  ],
];
for (const [what, make] of STYLES) {
  test(`a model of backend pytorch runs ${what}`, options, async (t) => {
    const source = await sourceOf("", { config: CONFIG });
    if (what === "TorchScript") execFileSync("rm", [join(source.versionFolder, "model.py")]);
    make(source.versionFolder);
    const model = await createPythonBackend({ name: "pytorch", environment }).load(source);
    const instance = await model.createInstance(INSTANCE);
    t.after(() => instance.close());
    const request = new TestRequest([int32("B__1", [4, 2]), int32("A__0", [10, 3])], {}, [
      "DIFFERENCE__0",
      "QUOTIENT__1",
    ]);
    await instance.execute(batchOf([request]));
    const outputs = new Map(request.responses[0]?.outputs.map((output) => [output.name, floats(output.data)]));
    assert.deepEqual(
      Object.fromEntries(outputs),
      { DIFFERENCE__0: [12, 2], QUOTIENT__1: [2.5, 1.5] },
      request.errorText,
    );
  });
}

test("tensors of torch go both ways through DLPack, BF16 included", options, async (t) => {
  const code = `
import torch
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        ours = pb_utils.Tensor.from_dlpack("T", torch.tensor([1.5, -2.0], dtype=torch.bfloat16))
        again = torch.from_dlpack(ours)
        assert again.dtype == torch.bfloat16 and again.tolist() == [1.5, -2.0], again
        assert torch.utils.dlpack.from_dlpack(ours.to_dlpack()).tolist() == [1.5, -2.0]
        turned = torch.arange(6).reshape(2, 3).t()
        assert pb_utils.Tensor.from_dlpack("U", torch.utils.dlpack.to_dlpack(turned)).as_numpy().tolist() == turned.tolist()
        learned = torch.nn.Parameter(torch.ones(2))
        assert pb_utils.Tensor.from_dlpack("L", learned).as_numpy().tolist() == [1, 1]
        assert pb_utils.Tensor.from_dlpack("B", torch.tensor([True, False])).as_numpy().tolist() == [True, False]
        return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", torch.tensor([3.0]).bfloat16())])] * len(requests)
`;
  const model = await createPythonBackend({ environment }).load(await sourceOf(code));
  const instance = await model.createInstance(INSTANCE);
  t.after(() => instance.close());
  const request = new TestRequest();
  await instance.execute(batchOf([request]));
  const output = request.responses[0]?.outputs[0];
  assert.deepEqual([output?.datatype, [...(output?.data ?? [])]], ["BF16", [0x40, 0x40]], request.errorText);
});

function floats(data: Uint8Array): number[] {
  return [...new Float32Array(new Uint8Array(data).buffer)];
}
