/**
 * Sums over GPUs: whether they are right, and their time in a recorded graph, small ones through each other's memory beside
 * NCCL. Each GPU has a thread; this file is the program of all but the first.
 */

import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker, workerData } from "node:worker_threads";
import { numberToBf16 } from "../../server/src/core/bf16.ts";
import { CudaDevice } from "../../server/src/device/cuda/cuda-device.ts";
import { CudaGraph } from "../../server/src/device/cuda/cuda-graph.ts";
import { type GroupIds, newGroupIds, RankGroup } from "../../server/src/engine/ranks/rank-group.ts";

export interface SumResult {
  readonly way: "shared" | "nccl" | "ordered";
  readonly kiB: number;
  readonly us: number;
  readonly isRight: boolean;
}

interface RankSums {
  readonly rank: number;
  readonly numRanks: number;
  readonly ids: readonly [shared: GroupIds, nccl: GroupIds, ordered: GroupIds];
}

const SIZES_KIB = [8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16_384];
const MAX_SHARED_BYTES = 512 * 1024;
const IN_GRAPH = 20;
const REPEATS = 5;

export async function measureSums(numRanks: number): Promise<readonly SumResult[]> {
  const layout = { numTensorRanks: numRanks, numStages: 1 };
  const ids = [newGroupIds(layout), newGroupIds(layout), newGroupIds(layout)] as const;
  const program = fileURLToPath(new URL(`./rank-sums${extname(import.meta.url)}`, import.meta.url));
  const workers = Array.from({ length: numRanks - 1 }, (_, i) => {
    const task: RankSums = { rank: i + 1, numRanks, ids };
    return new Worker(program, { workerData: task });
  });
  const failed = Promise.race(workers.map((worker) => new Promise<never>((_, reject) => worker.once("error", reject))));
  failed.catch(() => undefined);
  const exited = workers.map((worker) => new Promise<void>((resolve) => worker.once("exit", () => resolve())));
  const results = sumAll({ rank: 0, numRanks, ids });
  await Promise.race([failed, Promise.all(exited)]);
  return results;
}

function sumAll({ rank, numRanks, ids }: RankSums): readonly SumResult[] {
  const device = new CudaDevice(rank);
  const layout = { numTensorRanks: numRanks, numStages: 1 };
  const groups = [
    {
      way: "shared",
      group: new RankGroup(device, ids[0], rank, layout, { maxSharedBytes: MAX_SHARED_BYTES, isOrdered: false }),
    },
    { way: "nccl", group: new RankGroup(device, ids[1], rank, layout, { maxSharedBytes: 0, isOrdered: false }) },
    { way: "ordered", group: new RankGroup(device, ids[2], rank, layout, { maxSharedBytes: 0, isOrdered: true }) },
  ] as const;
  if (rank === 0) console.log(`sums through each other's memory: ${groups[0].group.sharesMemory}`);
  const results: SumResult[] = [];
  for (const kiB of SIZES_KIB) {
    for (const { way, group } of groups) {
      if (way === "shared" && kiB * 1024 > MAX_SHARED_BYTES) continue;
      results.push({ way, kiB, ...timeSum(device, group, kiB * 512, rank, numRanks) });
    }
  }
  for (const { group } of groups) group.close();
  device.close();
  return results;
}

/** bf16: rank r brings r + 1 in every element. */
function timeSum(
  device: CudaDevice,
  group: RankGroup,
  count: number,
  rank: number,
  numRanks: number,
): Pick<SumResult, "us" | "isRight"> {
  const { stream } = device;
  const buffer = device.allocate("a sum", 2 * count);
  const own = new Uint16Array(count).fill(numberToBf16(rank + 1));
  const [start, end] = [device.event(true), device.event(true)];
  stream.copyToDevice(buffer.address, own, own.byteLength);
  group.sum(buffer.address, count, "bf16");
  const sums = new Uint16Array(count);
  stream.copyToHost(sums, buffer.address, sums.byteLength);
  stream.synchronize();
  const expected = numberToBf16((numRanks * (numRanks + 1)) / 2);
  const isRight = sums.every((value) => value === expected);
  stream.fill(buffer.address, 0, 2 * count);
  const graph = new CudaGraph(device.driver, stream, () => {
    for (let i = 0; i < IN_GRAPH; i++) group.sum(buffer.address, count, "bf16");
  });
  let us = Number.POSITIVE_INFINITY;
  for (let i = 0; i < REPEATS; i++) {
    start.record(stream);
    graph.launch(stream);
    end.record(stream);
    stream.synchronize();
    us = Math.min(us, (1000 * end.msSince(start)) / IN_GRAPH);
  }
  graph.close();
  start.close();
  end.close();
  buffer.close();
  return { us, isRight };
}

if (workerData !== null && (workerData as Partial<RankSums>).ids !== undefined) sumAll(workerData as RankSums);
