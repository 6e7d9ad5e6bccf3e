import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
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

test("large answers of Python models hold their own data while others are answered", {
  skip: clientVenv.reason,
  timeout: 600_000,
}, async () => {
  await using repository = await createModelRepository({
    files: { "identity/config.pbtxt": CONFIG, "identity/1/model.py": CODE },
  });
  const server = await startServerProcess({
    repositories: [repository.path],
    env: { NEREID_PYTHON: clientVenv.python },
  });
  try {
    const slow = Array.from({ length: 3 }, (_, number) => askSlowly(server.http, number));
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
    for (const { sent, received } of await Promise.all(slow)) assert.ok(received.subarray(-sent.length).equals(sent));
  } finally {
    await server.stop();
  }
});

/** More than the system holds for a client that does not read: it reads when the others are under way. */
async function askSlowly(port: number, number: number): Promise<{ sent: Buffer; received: Buffer }> {
  const sent = Buffer.from(new Float32Array(8_000_000).fill(number + 0.5).buffer);
  const head = JSON.stringify({
    inputs: [{ name: "IN", datatype: "FP32", shape: [8_000_000], parameters: { binary_data_size: sent.length } }],
    parameters: { binary_data_output: true },
  });
  const received = await new Promise<Buffer>((resolve, reject) => {
    const call = request({ port, host: "127.0.0.1", method: "POST", path: "/v2/models/identity/infer" }, (reply) => {
      const parts: Buffer[] = [];
      reply.on("error", reject).on("end", () => resolve(Buffer.concat(parts)));
      void sleep(1000).then(() => reply.on("data", (part: Buffer) => parts.push(part)));
    });
    call.on("error", reject).setHeader("Inference-Header-Content-Length", head.length);
    call.end(Buffer.concat([Buffer.from(head), sent]));
  });
  return { sent, received };
}
