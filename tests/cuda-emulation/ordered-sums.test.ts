/** Sums in the order of GPUs, with the other GPUs' parts as NCCL would bring them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type CudaElement,
  ELEMENT_BYTES,
  fromElements,
  toElements,
} from "../../server/kernels/testing/cuda-elements.ts";
import { DeterministicAllReduce } from "../../server/src/engine/ranks/deterministic-all-reduce.ts";
import { viewMemory } from "../../server/src/native/ffi.ts";
import { hostCompiler } from "./compile-emulation.ts";
import { EmulatedGpu, readFloats } from "./emulated-gpu.ts";

const skip = hostCompiler().reason ?? false;
const COUNT = 40;
const PIECE_BYTES = 64;

/** Sums of these depend on their order. */
const partOf = (rank: number): Float32Array =>
  Float32Array.from({ length: COUNT }, (_, i) => [1e8, -1e8, 3.5][(rank + i) % 3] ?? 0);

function bytesOf(type: CudaElement, values: Float32Array): Uint8Array {
  const stored = toElements(type, values);
  return new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength);
}

function rounded(type: CudaElement, values: Float32Array): Float32Array {
  return type === "f32" ? values : fromElements(type, toElements(type, values) as Uint16Array);
}

for (const type of ["f32", "bf16"] as const) {
  test(`DeterministicAllReduce adds parts of three GPUs in ${type} in their order, piece by piece`, { skip }, () => {
    const numRanks = 3;
    const expected = rounded(type, partOf(0));
    for (const rank of [1, 2]) {
      const part = rounded(type, partOf(rank));
      expected.set(
        rounded(
          type,
          expected.map((value, i) => value + (part[i] ?? 0)),
        ),
      );
    }
    for (let rank = 0; rank < numRanks; rank++) {
      const gpu = new EmulatedGpu(hostCompiler()).asDevice();
      const at = gpu.allocate("a sum", COUNT * ELEMENT_BYTES[type]).address;
      viewMemory(at, COUNT * ELEMENT_BYTES[type]).set(bytesOf(type, partOf(rank)));
      let done = 0;
      const gather = (parts: bigint, count: number): void => {
        for (let other = 0; other < numRanks; other++) {
          if (other === rank) continue;
          const own = bytesOf(type, partOf(other).subarray(done, done + count));
          viewMemory(parts + BigInt(other * own.length), own.length).set(own);
        }
        done += count;
      };
      const sums = new DeterministicAllReduce(gpu, { rank, numRanks, gather }, PIECE_BYTES);
      sums.sum(at, COUNT, type);
      assert.equal(done, COUNT);
      assert.deepEqual(readFloats(type, at, COUNT), expected);
      sums.close();
      gpu.close();
    }
  });
}
