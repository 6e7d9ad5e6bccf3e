/** A Python model whose processes are ended and stopped at random points under load. */
import assert from "node:assert/strict";
import type { KeepAliveClient } from "./hostile-http.ts";
import { createModelRepository } from "./model-repository.ts";
import { type FaultSubject, type FaultTally, runFaults, stopSubject, strikeProcess } from "./process-faults.ts";
import type { Random } from "./random.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";

const SIGNALS = ["SIGKILL", "SIGSEGV", "SIGSTOP"] as const;
const STUB = "python";
const NUM_INSTANCES = 2;
const NUM_CLIENTS = 16;
const ELEMENTS = 16_384;

const CONFIG = `backend: "python"
input [{ name: "X" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "Y" data_type: TYPE_FP32 dims: [-1] }]
instance_group [{ kind: KIND_CPU count: ${NUM_INSTANCES} }]`;
const CODE = `import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.01)
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(r, "X").as_numpy())])
            for r in requests
        ]
`;

/** Runs until `isOver` says so. Rejects at the first thing that is not as it should be. */
export async function runPythonFaults(
  python: string,
  random: Random,
  isOver: (points: number) => boolean,
): Promise<FaultTally> {
  const files = ["work", "copy"].flatMap((name) => [
    [`${name}/config.pbtxt`, CONFIG],
    [`${name}/1/model.py`, CODE],
  ]);
  await using repository = await createModelRepository({ files: Object.fromEntries(files) });
  const server = await startServerProcess({
    repositories: [repository.path],
    flags: ["--model-control-mode=explicit", "--load-model=work"],
    env: { NEREID_PYTHON: python },
  });
  const subject = createSubject(server);
  try {
    return await runFaults(subject, random, isOver);
  } finally {
    await stopSubject(subject);
  }
}

function createSubject(server: ServerProcess): FaultSubject {
  const parts = { server, model: "work", copy: "copy", program: STUB, numClients: NUM_CLIENTS };
  return { ...parts, send, strike: (random) => strikeProcess(parts, SIGNALS, random) };
}

async function send(client: KeepAliveClient, number: number): Promise<boolean> {
  const data = Buffer.from(new Float32Array(ELEMENTS).fill(number).buffer);
  const head = JSON.stringify({
    inputs: [{ name: "X", datatype: "FP32", shape: [ELEMENTS], parameters: { binary_data_size: data.length } }],
    parameters: { binary_data_output: true },
  });
  const { status, body } = await client.send({
    path: "/v2/models/work/infer",
    headers: { "Inference-Header-Content-Length": `${head.length}` },
    body: Buffer.concat([Buffer.from(head), data]),
  });
  if (status === 200) {
    assert.ok(body.subarray(-data.length).equals(data), "an answer holds the data of another request");
    return true;
  }
  assert.ok(status === 500 && body.includes("is not healthy"), `${status} ${body.subarray(0, 300)}`);
  return false;
}
