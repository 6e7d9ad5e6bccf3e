/**
 * Cost of a Python model's input in a client's system shared memory, mapped and copied in turn on one server: an input
 * at an odd offset is copied. Prints the table of docs/decisions/026-client-memory-in-python.md. Takes 12 s.
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { SharedMemoryObject } from "../../tests/fakes/shared-memory-object.ts";
import { pythonVenv } from "../../tests/python-venv.ts";
import { childrenOf } from "../../tests/support/child-processes.ts";
import { createModelRepository } from "../../tests/support/model-repository.ts";
import { startServerProcess } from "../../tests/support/server-process.ts";

const CONFIG = `backend: "python"
input [{ name: "IN" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [1] }]`;
const CODE = `import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([a[::16].max()]))]) for a in arrays]
`;
const MIB = 1024 * 1024;
const FLOAT_BYTES = 4;
/** Sizes of a request, and how many are measured. */
const SIZES: readonly (readonly [number, number])[] = [
  [MIB * 2, 200],
  [MIB * 8, 50],
  [MIB * 64, 10],
];
const ROUNDS = 5;
const WARM_UP = 3;
const TICK_MS = 10;
const OFFSETS = { copied: FLOAT_BYTES, mapped: 0 };
type Way = keyof typeof OFFSETS;
const WAYS: readonly Way[] = ["copied", "mapped"];

interface Sums {
  readonly durationsMs: number[];
  /** By process. */
  readonly cpuMs: Map<number, number>;
}

const venv = await pythonVenv(["numpy"]);
await using repository = await createModelRepository({ files: { "m/config.pbtxt": CONFIG, "m/1/model.py": CODE } });
const server = await startServerProcess({
  repositories: [repository.path],
  env: { NEREID_PYTHON: venv.python },
  flags: ["--allow-client-shm=true"],
});
const totalBytes = 64 * MIB + 4096;
using object = new SharedMemoryObject(new Uint8Array(totalBytes).fill(1));
try {
  await post("systemsharedmemory/region/r/register", { key: object.key, byte_size: totalBytes });
  for (const [numBytes, count] of SIZES) await measure(numBytes, count);
} finally {
  await server.stop();
}

async function post(path: string, body: object): Promise<void> {
  const response = await fetch(`${server.baseUrl}/v2/${path}`, { method: "POST", body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text}`);
}

async function ask(numBytes: number, way: Way): Promise<void> {
  const parameters = {
    shared_memory_region: "r",
    shared_memory_offset: OFFSETS[way],
    shared_memory_byte_size: numBytes,
  };
  await post("models/m/infer", {
    inputs: [{ name: "IN", datatype: "FP32", shape: [numBytes / FLOAT_BYTES], parameters }],
  });
}

async function measure(numBytes: number, count: number): Promise<void> {
  const pids = [server.pid, ...(await childrenOf(server.pid, "python"))];
  const results: Record<Way, Sums> = { copied: newSums(pids), mapped: newSums(pids) };
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const way of WAYS) await run(numBytes, way, count, results[way]);
  }
  for (const way of WAYS) {
    const { durationsMs, cpuMs } = results[way];
    const median = (durationsMs.sort((a, b) => a - b)[durationsMs.length >> 1] ?? 0).toFixed(2);
    const [serverMs, processMs] = [...cpuMs.values()].map((ms) => (ms / ROUNDS / count).toFixed(2));
    process.stdout.write(
      `${numBytes / MIB} MiB ${way}: median ${median} ms, CPU time: server ${serverMs} ms, process ${processMs} ms\n`,
    );
  }
}

function newSums(pids: readonly number[]): Sums {
  return { durationsMs: [], cpuMs: new Map(pids.map((pid) => [pid, 0])) };
}

async function run(numBytes: number, way: Way, count: number, { durationsMs, cpuMs }: Sums): Promise<void> {
  for (let i = 0; i < WARM_UP; i += 1) await ask(numBytes, way);
  for (const [pid, ms] of cpuMs) cpuMs.set(pid, ms - cpuOf(pid));
  for (let i = 0; i < count; i += 1) {
    const startMs = performance.now();
    await ask(numBytes, way);
    durationsMs.push(performance.now() - startMs);
  }
  for (const [pid, ms] of cpuMs) cpuMs.set(pid, ms + cpuOf(pid));
}

/** Processor time of a process so far. */
function cpuOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}
