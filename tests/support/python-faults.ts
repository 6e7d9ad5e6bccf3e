/**
 * Ends and stops the processes of a Python model at random points under load, and counts what that costs: every request has
 * exactly one end, the model comes back each time, and nothing is left behind. The same in the tests and in the long run.
 */
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { childrenOf, isRunning } from "./child-processes.ts";
import { KeepAliveClient } from "./hostile-http.ts";
import { createModelRepository } from "./model-repository.ts";
import { eventually, readMetric, residentBytes } from "./probe-server.ts";
import type { Random } from "./random.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";

const SIGNALS = ["SIGKILL", "SIGSEGV", "SIGSTOP"] as const;
const STUB = "python";
const NUM_INSTANCES = 2;
const NUM_CLIENTS = 16;
const MAX_PAUSE_MS = 60;
const ELEMENTS = 16_384;
/** More than what a loaded server moves by itself. */
const MAX_GROWTH_BYTES = 200 * 1024 * 1024;

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

export interface FaultTally {
  sent: number;
  answered: number;
  failed: number;
  maxRecoveryMs: number;
  points: number;
  /** The slowest recovery and the one in the middle, by what was done. */
  readonly recoveryMs: Record<string, { slowest: number; median: number }>;
}

/** Runs until `isOver` says so. Rejects at the first thing that is not as it should be. */
export async function runPythonFaults(
  python: string,
  random: Random,
  isOver: (points: number) => boolean,
): Promise<FaultTally> {
  await using repository = await createModelRepository({
    files: { "work/config.pbtxt": CONFIG, "work/1/model.py": CODE },
  });
  const server = await startServerProcess({ repositories: [repository.path], env: { NEREID_PYTHON: python } });
  try {
    const tally: FaultTally = { sent: 0, answered: 0, failed: 0, maxRecoveryMs: 0, points: 0, recoveryMs: {} };
    const recoveries = new Map<string, number[]>(SIGNALS.map((signal) => [signal, []]));
    await underLoad(server, tally, async () => {
      const before = await footprint(server);
      while (!isOver(tally.points)) {
        const { signal, recoveryMs } = await oneFault(server, random);
        recoveries.get(signal)?.push(recoveryMs);
        tally.maxRecoveryMs = Math.max(tally.maxRecoveryMs, recoveryMs);
        tally.points += 1;
      }
      await expectNoMore(server, before);
    });
    assert.equal(tally.answered + tally.failed, tally.sent, "every request has one end");
    for (const [signal, all] of recoveries) {
      all.sort((a, b) => a - b);
      tally.recoveryMs[signal] = { slowest: all.at(-1) ?? 0, median: all[all.length >> 1] ?? 0 };
    }
    const pending = (): Promise<number> => readMetric(server, "nv_inference_pending_request_count");
    await eventually(pending, (count) => count === 0);
    return tally;
  } finally {
    const stubs = await childrenOf(server.pid, STUB);
    await server.stop();
    for (const stub of stubs) assert.equal(await isRunning(stub), false, `process ${stub} outlived the server`);
  }
}

async function underLoad(server: ServerProcess, tally: FaultTally, work: () => Promise<void>): Promise<void> {
  using client = new KeepAliveClient(server.http, NUM_CLIENTS);
  let isOn = true;
  const firstAnswers: Promise<void>[] = [];
  const clients = Array.from({ length: NUM_CLIENTS }, async () => {
    const first = sendOne(client, tally);
    firstAnswers.push(first);
    await first;
    while (isOn) await sendOne(client, tally);
  });
  try {
    await Promise.all(firstAnswers); // every client has its connection
    await work();
  } finally {
    isOn = false;
    await Promise.all(clients);
  }
}

async function sendOne(client: KeepAliveClient, tally: FaultTally): Promise<void> {
  tally.sent += 1;
  const data = Buffer.from(new Float32Array(ELEMENTS).fill(tally.sent).buffer);
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
    tally.answered += 1;
    return;
  }
  assert.ok(status === 500 && body.includes("is not healthy"), `${status} ${body.subarray(0, 300)}`);
  tally.failed += 1;
}

async function oneFault(server: ServerProcess, random: Random): Promise<{ signal: string; recoveryMs: number }> {
  await sleep(random.below(MAX_PAUSE_MS));
  const stubs = await childrenOf(server.pid, STUB);
  const stub = random.pick(stubs);
  const signal = random.pick(SIGNALS);
  const startMs = performance.now();
  process.kill(stub, signal);
  await eventually(
    () => isRunning(stub),
    (isThere) => !isThere,
  );
  await eventually(
    async () => (await fetch(`${server.baseUrl}/v2/models/work/ready`)).status,
    (status) => status === 200,
  );
  return { signal, recoveryMs: Math.round(performance.now() - startMs) };
}

interface Footprint {
  readonly stubs: number;
  readonly descriptors: number;
  readonly residentBytes: number;
}

async function footprint(server: ServerProcess): Promise<Footprint> {
  const [stubs, descriptors] = await Promise.all([childrenOf(server.pid, STUB), readdir(`/proc/${server.pid}/fd`)]);
  return { stubs: stubs.length, descriptors: descriptors.length, residentBytes: await residentBytes(server.pid) };
}

async function expectNoMore(server: ServerProcess, before: Footprint): Promise<void> {
  const now = await eventually(
    () => footprint(server),
    ({ stubs, descriptors }) => stubs === before.stubs && descriptors <= before.descriptors,
  );
  const grownBytes = now.residentBytes - before.residentBytes;
  assert.ok(grownBytes < MAX_GROWTH_BYTES, `the server has grown by ${grownBytes} bytes`);
}
