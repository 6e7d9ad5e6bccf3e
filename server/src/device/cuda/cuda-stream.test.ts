import assert from "node:assert/strict";
import { test } from "node:test";
import type { CudaDriver } from "../../native/cuda/cuda.ts";
import type { CudaFunctions } from "../../native/cuda/functions.ts";
import type { CudaKernel, CudaModules } from "./cuda-modules.ts";
import { CudaStream } from "./cuda-stream.ts";

const MATRIX = { address: 4096n, rowBytes: 512, numRows: 40, pieceRows: 64 };
const KERNEL = { spec: { source: "k.cu", name: "k", defines: {} }, address: 1n } as unknown as CudaKernel;

/** A stream on no device, and where each launch has found its parameters. */
function recordingStream(): { readonly stream: CudaStream; readonly launched: bigint[][] } {
  const launched: bigint[][] = [];
  const calls = {
    createStream: () => 0,
    encodeTensorMap: () => 0,
    launch: (_config: unknown, _kernel: unknown, parameters: BigUint64Array) => {
      launched.push([...parameters.subarray(0, 2)]);
      return 0;
    },
  } as unknown as CudaFunctions;
  const driver: CudaDriver = { path: "fake", version: 13000, calls, check: (status) => assert.equal(status, 0) };
  const modules = { allowShared: () => undefined } as unknown as CudaModules;
  return {
    stream: new CudaStream({
      driver,
      modules,
      numSms: 132,
      arch: "sm_90a",
      overlapsLaunches: true,
      checksLaunches: false,
    }),
    launched,
  };
}

test("launch() finds numbers where they are again after a launch with tensor maps, also after one that was refused", () => {
  const { stream, launched } = recordingStream();
  const launch = (...args: Parameters<CudaStream["launch"]>[4]): void =>
    stream.launch(KERNEL, [1, 1, 1], [32, 1, 1], 0, args);
  launch({ ptr: 1n }, { ptr: 2n });
  launch({ table: MATRIX }, { ptr: 2n });
  launch({ ptr: 1n }, { ptr: 2n });
  assert.throws(() => launch({ table: MATRIX }, { table: { ...MATRIX, address: 4100n } }), /a multiple of 16 bytes/);
  launch({ ptr: 1n }, { ptr: 2n });
  const [first, withMap, second, last] = launched;
  assert.notDeepEqual(withMap, first);
  assert.deepEqual(second, first);
  assert.deepEqual(last, first);
});
