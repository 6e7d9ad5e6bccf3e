import assert from "node:assert/strict";
import { test } from "node:test";
import type { CudaDriver } from "../../native/cuda/cuda.ts";
import type { CudaFunctions } from "../../native/cuda/functions.ts";
import { viewMemory } from "../../native/ffi.ts";
import type { CudaKernel, CudaModules } from "./cuda-modules.ts";
import { CudaStream } from "./cuda-stream.ts";

const MATRIX = { address: 4096n, rowBytes: 512, numRows: 40, pieceRows: 64 };
const KERNEL = { spec: { source: "k.cu", name: "k", defines: {} }, address: 1n } as unknown as CudaKernel;

/** Start of the fake driver's device memory. */
const DEVICE_MEMORY = 0x7000n;

/** A stream on no device, and the first two arguments of each launch. */
function recordingStream(): { readonly stream: CudaStream; readonly launched: bigint[][] } {
  const launched: bigint[][] = [];
  const take = (out: BigUint64Array): number => {
    out[0] = DEVICE_MEMORY;
    return 0;
  };
  const calls = {
    createStream: () => 0,
    encodeTensorMap: () => 0,
    allocate: take,
    allocateHost: take,
    copyToDevice: () => 0,
    launch: (_config: unknown, _kernel: unknown, parameters: BigUint64Array) => {
      launched.push([...parameters.subarray(0, 2)].map(valueAt));
      return 0;
    },
  } as unknown as CudaFunctions;
  const driver: CudaDriver = { path: "fake", version: 13000, calls, check: (status) => assert.equal(status, 0) };
  const modules = { allowShared: () => undefined } as unknown as CudaModules;
  const owner = { driver, modules, numSms: 132, arch: "sm_90a", overlapsLaunches: true, checksLaunches: false };
  return { stream: new CudaStream(owner), launched };
}

function valueAt(address: bigint): bigint {
  return Buffer.from(viewMemory(address, 8)).readBigUInt64LE();
}

test("launch() passes numbers, and of tensor maps the address on the device", () => {
  const { stream, launched } = recordingStream();
  const launch = (...args: Parameters<CudaStream["launch"]>[4]): void =>
    stream.launch(KERNEL, [1, 1, 1], [32, 1, 1], 0, args);
  launch({ ptr: 1n }, { ptr: 2n });
  launch({ table: MATRIX }, { ptr: 3n });
  assert.throws(() => launch({ table: { ...MATRIX, address: 4100n } }, { ptr: 4n }), /a multiple of 16 bytes/);
  launch({ ptr: 5n }, { table: MATRIX });
  assert.deepEqual(launched, [
    [1n, 2n],
    [DEVICE_MEMORY, 3n],
    [5n, DEVICE_MEMORY],
  ]);
});
