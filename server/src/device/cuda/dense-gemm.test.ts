import assert from "node:assert/strict";
import { test } from "node:test";
import type { CublasLt, MatmulAlgorithm, MatmulPlan, MatmulShape } from "../../native/cuda/cublaslt.ts";
import { CudaError } from "../../native/cuda/cuda.ts";
import type { CudaDevice } from "./cuda-device.ts";
import { CublasLtGemms, type DenseGemm } from "./dense-gemm.ts";
import { measureAlgorithms } from "./measure-algorithms.ts";

interface Ran {
  readonly shape: MatmulShape;
  readonly algorithm: number;
  readonly x: bigint;
  readonly y: bigint;
  readonly xScale: bigint | undefined;
}

/** A library whose algorithms take as long as `times` says, the negative ones failing; and what ran on it. */
function fakeLibrary(
  times: readonly number[],
  isDeterministic?: boolean,
): { gemms: CublasLtGemms; ran: Ran[]; asked: MatmulShape[]; inOneSum: Set<boolean | undefined> } {
  const ran: Ran[] = [];
  const asked: MatmulShape[] = [];
  const inOneSum = new Set<boolean | undefined>();
  const plan = (shape: MatmulShape): MatmulPlan => ({
    shape,
    algorithms: (_pointers, _maxBytes, _count, isOneSum) => {
      asked.push(shape);
      inOneSum.add(isOneSum);
      return times.map((_, i) => ({ data: Uint8Array.of(i), workspaceBytes: 0 }));
    },
    run: ({ x, y, xScale }, { data }: MatmulAlgorithm) => {
      const algorithm = data[0] ?? 0;
      if ((times[algorithm] ?? 0) < 0) throw new Error("not supported");
      ran.push({ shape, algorithm, x, y, xScale });
    },
    close: () => undefined,
  });
  const lt: CublasLt = { path: "fake", version: 1, plan };
  const buffer = { address: 0n, numBytes: 0, close: () => undefined };
  const device = { lt, stream: { address: 0n }, allocate: () => buffer } as unknown as CudaDevice;
  const timer = {
    time: (enqueue: () => void): number => {
      enqueue();
      return times[ran.at(-1)?.algorithm ?? 0] ?? 0;
    },
  };
  return { gemms: new CublasLtGemms(device, timer, isDeterministic), ran, asked, inOneSum };
}

function gemm(rows: number, changes: Partial<DenseGemm> = {}): DenseGemm {
  const shape = {
    outputs: 64,
    inputs: 128,
    inputType: "bf16",
    outputType: "bf16",
    hasBias: false,
    scales: "none",
  } as const;
  return { rows, ...shape, x: 1n, weight: 2n, y: 3n, ...changes };
}

test("run() measures once a shape and keeps the fastest", () => {
  const { gemms, ran, asked } = fakeLibrary([9, 4, 7]);
  for (const rows of [33, 34, 40]) gemms.run(gemm(rows));
  assert.equal(asked.length, 1);
  assert.deepEqual(
    ran.slice(3).map(({ algorithm, shape }) => [algorithm, shape.rows]),
    [
      [1, 40],
      [1, 40],
      [1, 40],
    ],
  );
});

test("measureAlgorithms() ends with an error that loses the device, whatever was measured before", () => {
  const lost = new CudaError("CUDA_ERROR_LAUNCH_FAILED", "waiting for the device: CUDA_ERROR_LAUNCH_FAILED");
  const timer = {
    time: (enqueue: () => void): number => {
      enqueue();
      return 1;
    },
  };
  const asked: number[] = [];
  const measure = (): unknown =>
    measureAlgorithms([0, 1, 2], timer, (algorithm) => {
      asked.push(algorithm);
      if (algorithm === 1) throw lost;
    });
  assert.throws(measure, lost);
  assert.deepEqual(asked, [0, 1]);
});

test("run() leaves out algorithms that fail", () => {
  const { gemms, ran } = fakeLibrary([-1, 8, -1]);
  gemms.run(gemm(1));
  assert.equal(ran.at(-1)?.algorithm, 1);
});

test("run() gives the library's reason when all fail", () => {
  const { gemms } = fakeLibrary([-1, -1]);
  assert.throws(() => gemms.run(gemm(1)), /not supported/);
});

test("run() names the shape for which there is no algorithm", () => {
  const { gemms } = fakeLibrary([]);
  assert.throws(() => gemms.run(gemm(5)), /no algorithm for 8 64 128 bf16 bf16 false none/);
});

test("run() gives codes at least sixteen rows", () => {
  const { gemms, asked } = fakeLibrary([1]);
  gemms.run(gemm(1, { inputType: "e4m3" }));
  assert.equal(asked[0]?.rows, 16);
});

test("adopt() leaves nothing to measure for shapes that are known, and known gives them on", () => {
  const first = fakeLibrary([9, 4, 7]);
  first.gemms.run(gemm(33));
  const { known } = first.gemms;
  assert.deepEqual(known, [{ shape: "40 64 128 bf16 bf16 false none", algorithm: "01", workspaceBytes: 0 }]);
  const second = fakeLibrary([9, 4, 7]);
  second.gemms.adopt(known);
  second.gemms.run(gemm(33));
  assert.deepEqual([second.asked.length, second.ran.map(({ algorithm }) => algorithm)], [0, [1]]);
  second.gemms.run(gemm(1));
  assert.equal(second.asked.length, 1);
});

test("onGemm sees each GEMM before it runs", () => {
  const { gemms, ran } = fakeLibrary([1]);
  const seen: (readonly [rows: number, ranBefore: number])[] = [];
  gemms.run(gemm(33));
  const before = ran.length;
  gemms.onGemm = ({ rows }) => seen.push([rows, ran.length]);
  gemms.run(gemm(34));
  assert.deepEqual(seen, [[34, before]]);
});

test("run() makes every GEMM of pieces of as many rows in the deterministic mode", () => {
  const { gemms, ran, asked, inOneSum } = fakeLibrary([9, 4], true);
  for (const rows of [1, 128, 300]) gemms.run(gemm(rows));
  assert.deepEqual([asked.map(({ rows }) => rows), [...inOneSum]], [[128], [true]]);
  const of300 = ran.slice(-3).map(({ x, y }) => [x, y]);
  assert.deepEqual(of300, [
    [1n, 3n],
    [1n + 128n * 256n, 3n + 128n * 128n],
    [1n + 256n * 256n, 3n + 256n * 128n],
  ]);
});

test("run() takes the scales of each piece of rows in the deterministic mode", () => {
  const { gemms, ran } = fakeLibrary([1], true);
  gemms.run(gemm(129, { inputType: "e4m3", scales: "rows", xScale: 1000n }));
  assert.deepEqual(
    ran.slice(-2).map(({ x, xScale }) => [x, xScale]),
    [
      [1n, 1000n],
      [1n + 128n * 128n, 1000n + 512n],
    ],
  );
});

test("run() takes the first algorithm that works, not the fastest nor a known one, in the deterministic mode", () => {
  const { gemms, ran } = fakeLibrary([-1, 9, 4], true);
  gemms.adopt([{ shape: "128 64 128 bf16 bf16 false none", algorithm: "02", workspaceBytes: 0 }]);
  gemms.run(gemm(1));
  assert.equal(ran.at(-1)?.algorithm, 1);
});
