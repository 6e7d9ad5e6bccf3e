/**
 * Cost of the Python backend, process to process: identity models of 1 KB and 1 MB on 1 and 4 instances, without front
 * ends. Prints one row a case: requests/s, bytes/s in and out together, and CPU time a request of server and processes.
 * `node --conditions=nereid-source --import tsx bench/python-backend/main.ts [--seconds=3]`
 */
import { rm } from "node:fs/promises";
import process from "node:process";
import { parseArgs } from "node:util";
import type { BackendRequest, BackendResponse, Batch, ModelInstance } from "../../server/src/backend/backend.ts";
import { createPythonBackend } from "../../server/src/backend/python/python-backend.ts";
import { NO_PARAMETERS, NO_SEQUENCE } from "../../server/src/core/infer-request.ts";
import { keepFreedMemory } from "../../server/src/native/process-memory.ts";
import { EMPTY_CONFIG, sourceOf } from "../../tests/fakes/python-models.ts";
import { pythonVenv } from "../../tests/python-venv.ts";
import { cpuTimeUs } from "../serving/process-cpu.ts";

const IDENTITY = `
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())])
            for r in requests
        ]
`;
const CASES = [
  { bytes: 1024, instances: 1, batch: 1 },
  { bytes: 1024, instances: 1, batch: 8 },
  { bytes: 1024, instances: 4, batch: 1 },
  { bytes: 1024, instances: 4, batch: 8 },
  { bytes: 1024 * 1024, instances: 1, batch: 1 },
  { bytes: 1024 * 1024, instances: 4, batch: 1 },
] as const;

// As the server does.
keepFreedMemory();
const { values } = parseArgs({ options: { seconds: { type: "string", default: "3" } } });
const seconds = Number(values.seconds);
const { python, reason } = await pythonVenv(["numpy"]);
if (python === undefined) throw new Error(reason);
const backend = createPythonBackend({ environment: { ...process.env, NEREID_PYTHON: python } });
console.log("bytes | instances | requests a batch | requests/s | GB/s in + out | us of CPU a request");
for (const each of CASES) await measure(each);

async function measure({ bytes, instances: count, batch }: (typeof CASES)[number]): Promise<void> {
  const source = await sourceOf(IDENTITY, { config: EMPTY_CONFIG });
  const model = await backend.load(source);
  const instances = await Promise.all(
    Array.from({ length: count }, (_, index) =>
      model.createInstance({ name: `m_0_${index}`, kind: "KIND_CPU", deviceId: 0 }),
    ),
  );
  const data = new Uint8Array(bytes).fill(7);
  await Promise.all(instances.map((instance) => drive(instance, data, batch, 0.5)));
  const cpuBefore = cpuTimeUs(process.pid);
  const startMs = performance.now();
  const counts = await Promise.all(instances.map((instance) => drive(instance, data, batch, seconds)));
  const elapsedS = (performance.now() - startMs) / 1000;
  const total = counts.reduce((sum, each) => sum + each, 0);
  const cpuUs = (cpuTimeUs(process.pid) - cpuBefore) / total;
  const gigabytes = (2 * bytes * total) / elapsedS / 1e9;
  console.log(
    `${bytes} | ${count} | ${batch} | ${Math.round(total / elapsedS)} | ${gigabytes.toFixed(2)} | ${cpuUs.toFixed(0)}`,
  );
  await Promise.all(instances.map((instance) => instance.close()));
  await rm(source.modelFolder, { recursive: true });
}

/** Batches one after another; returns the requests that were answered. */
async function drive(instance: ModelInstance, data: Uint8Array, batch: number, forS: number): Promise<number> {
  const endMs = performance.now() + forS * 1000;
  let answered = 0;
  while (performance.now() < endMs) {
    const requests = Array.from({ length: batch }, () => request(data, () => (answered += 1)));
    const whole: Batch = { requests, batchSize: batch, computeStarted: () => undefined, computeEnded: () => undefined };
    await instance.execute(whole);
  }
  return answered;
}

function request(data: Uint8Array, onAnswer: () => void): BackendRequest {
  const input = { name: "IN", datatype: "UINT8", shape: [data.length], data } as const;
  return {
    request: {
      modelName: "m",
      modelVersion: "",
      id: "",
      inputs: [input],
      outputs: [],
      parameters: NO_PARAMETERS,
      sequence: NO_SEQUENCE,
      priority: 0,
      timeoutUs: 0,
      signal: new AbortController().signal,
      origin: { key: input, isLast: true },
      arrivalMs: 0,
    },
    batchSize: 1,
    outputNames: ["OUT"],
    respond(response: BackendResponse) {
      if (response.outputs[0]?.data.length !== data.length) throw new Error("the answer is not what was sent");
      response.release?.(); // as a front end does
      onAnswer();
    },
    fail(error) {
      throw error;
    },
    drained: () => Promise.resolve(),
  };
}
