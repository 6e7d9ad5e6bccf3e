import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createModelRepository } from "../support/model-repository.ts";
import { clientVenv, runPython } from "../support/python-checks.ts";
import { startServerProcess } from "../support/server-process.ts";

const SCRIPT = fileURLToPath(new URL("large_answers.py", import.meta.url));
const CONFIG = `backend: "python"
input [{ name: "IN" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [-1] }]
instance_group [{ kind: KIND_CPU count: 2 }]`;
const CODE = `import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())])
            for r in requests
        ]
`;

test("large answers of Python models hold their own data, whoever else is answered meanwhile", {
  skip: clientVenv.reason,
  timeout: 120_000,
}, async () => {
  await using repository = await createModelRepository({
    files: { "identity/config.pbtxt": CONFIG, "identity/1/model.py": CODE },
  });
  const server = await startServerProcess({
    repositories: [repository.path],
    env: { NEREID_PYTHON: clientVenv.python },
  });
  try {
    const { code, stdout, stderr } = await runPython([SCRIPT, `${server.http}`, `${server.grpc}`]);
    assert.equal(code, 0, stderr);
    const checks = stdout.trim().split("\n");
    assert.deepEqual(
      checks.map((line) => JSON.parse(line) as unknown),
      [
        { check: "HTTP", error: null },
        { check: "gRPC", error: null },
        { check: "gRPC stream", error: null },
      ],
    );
  } finally {
    await server.stop();
  }
});
