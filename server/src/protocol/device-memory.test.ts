import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorCode, ServerError } from "../core/server-error.ts";
import type { SharedDevices } from "../native/cuda/shared-memory.ts";
import type { Logger } from "../observe/log.ts";
import { DeviceRegions } from "./device-memory.ts";
import { RequestMemory, writeOutput } from "./request-memory.ts";
import { SharedMemoryRegions } from "./shared-memory.ts";

const HANDLE: Uint8Array = new Uint8Array(64).fill(5);

/** Two GPUs, whose memory of a handle is 64 bytes that count up. */
function bed(isAllowed = true) {
  const bytes = Uint8Array.from({ length: 64 }, (_, i) => i);
  const state = { open: 0, log: [] as string[], fault: "" };
  const expectWhole = (): void => {
    if (state.fault !== "") throw new Error(state.fault);
  };
  const devices: Pick<SharedDevices, "openMemory"> = {
    openMemory: (handle, ordinal) => {
      if (handle[0] !== 5 || ordinal > 1) throw new Error("CUDA_ERROR_INVALID_VALUE: invalid argument");
      state.open += 1;
      return {
        numBytes: bytes.length,
        read: (offset, into) => {
          expectWhole();
          into.set(bytes.subarray(offset, offset + into.length));
        },
        write: (offset, from) => {
          expectWhole();
          bytes.set(from, offset);
        },
        close: () => {
          state.open -= 1;
          expectWhole();
        },
      };
    },
  };
  const log = { error: (area: string, text: string) => state.log.push(`${area}: ${text}`) } as unknown as Logger;
  const opened = new DeviceRegions(devices as SharedDevices, log);
  return { bytes, state, regions: new SharedMemoryRegions(isAllowed, () => opened) };
}

function refusal(code: ErrorCode, message: string): (error: unknown) => boolean {
  return (error) => {
    assert.deepEqual([(error as ServerError).code, (error as ServerError).message], [code, message]);
    return true;
  };
}

test("registerCuda() is refused without GPUs, and with GPUs where clients may not register", () => {
  const none = refusal("invalid_argument", "failed to register CUDA shared memory region: 'r', GPUs not supported");
  for (const isAllowed of [false, true]) {
    assert.throws(() => new SharedMemoryRegions(isAllowed).registerCuda("r", HANDLE, 0n, 8n), none);
  }
  const off = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
  assert.throws(() => bed(false).regions.registerCuda("r", HANDLE, 0n, 8n), refusal("unsupported", off));
  assert.throws(() => bed(false).regions.unregister("", "cuda"), refusal("unsupported", off));
});

test("a request copies its inputs from the GPU and its outputs to it", () => {
  const { regions, bytes } = bed();
  regions.registerCuda("r", HANDLE, 1n, 64n);
  const memory = new RequestMemory(regions);
  const data = memory.bytes({ region: "r", offset: 62n, byteSize: 2n });
  const tensor = { name: "X", datatype: "UINT8", shape: [2], data } as const;
  assert.deepEqual([...data], [62, 63]);
  assert.equal(memory.detached(tensor), tensor);
  const target = memory.target({ region: "r", offset: 8n, byteSize: 2n });
  writeOutput(target, { ...tensor, data: Uint8Array.of(90, 91) });
  assert.deepEqual([...bytes.subarray(7, 11)], [7, 90, 91, 10]);
  const message =
    "shared memory size specified with the request for output 'X' (2 bytes) should be at least 3 bytes to hold the results";
  assert.throws(() => writeOutput(target, { ...tensor, data: new Uint8Array(3) }), refusal("internal", message));
  memory.release();
});

test("a region that is unregistered stays open until the last request that uses it has ended", () => {
  const { regions, state } = bed();
  regions.registerCuda("r", HANDLE, 0n, 64n);
  const memory = new RequestMemory(regions);
  const target = memory.target({ region: "r", offset: 0n, byteSize: 1n });
  regions.unregister("r", "cuda");
  assert.deepEqual([regions.cudaStatus("").length, state.open], [1, 1]);
  writeOutput(target, { name: "X", datatype: "UINT8", shape: [1], data: Uint8Array.of(9) });
  memory.release();
  assert.deepEqual([regions.cudaStatus("").length, state.open], [0, 0]);
});

for (const [byteSize, deviceId, handle, message] of [
  [65n, 0n, HANDLE, "failed to register shared memory region 'r': invalid args"],
  [
    2n ** 63n,
    0n,
    HANDLE,
    `failed to register shared memory region 'r': ${2n ** 63n} bytes are more than the 4294967296 of one region`,
  ],
  [8n, 2n, HANDLE, "failed to register shared memory region: invalid args"],
  [8n, 0n, new Uint8Array(64), "failed to register shared memory region: invalid args"],
] as const) {
  test(`registerCuda() refuses ${byteSize} bytes of GPU ${deviceId} and handle ${handle[0]}`, () => {
    const { regions, state } = bed();
    assert.throws(() => regions.registerCuda("r", handle, deviceId, byteSize), refusal("invalid_argument", message));
    assert.deepEqual([regions.cudaStatus(""), state.open], [[], 0]);
  });
}

test("registerCuda() writes the cause of a refusal to the log", () => {
  const { regions, state } = bed();
  assert.throws(() => regions.registerCuda("r", HANDLE, 2n, 8n));
  assert.deepEqual(state.log, [
    "shared_memory: failed to open CUDA IPC handle: CUDA_ERROR_INVALID_VALUE: invalid argument",
  ]);
});

test("cudaStatus() and unregister() keep to their kind, names are of both", () => {
  const { regions, state } = bed();
  regions.registerCuda("z", HANDLE, 1n, 8n);
  regions.registerCuda("a", HANDLE, 0n, 64n);
  assert.deepEqual(regions.cudaStatus(""), [
    { name: "a", device_id: 0, byte_size: 64 },
    { name: "z", device_id: 1, byte_size: 8 },
  ]);
  assert.deepEqual([regions.systemStatus(""), regions.cudaStatus("z").length], [[], 1]);
  const other = "The region named 'z' is registered as CUDA shared memory, not system shared memory";
  assert.throws(() => regions.systemStatus("z"), refusal("not_found", other));
  const taken = refusal("already_exists", "shared memory region 'z' already in manager");
  assert.throws(() => regions.registerCuda("z", HANDLE, 0n, 8n), taken);
  assert.throws(() => regions.register("z", "/x", 0n, 8n), taken);
  regions.unregister("z");
  regions.unregister("");
  assert.equal(state.open, 2);
  regions.unregister("z", "cuda");
  assert.equal(state.open, 1);
  regions.unregister("", "cuda");
  assert.equal(state.open, 0);
});

test("a GPU that fails fails the request, and ends no other", () => {
  const { regions, state } = bed();
  regions.registerCuda("r", HANDLE, 0n, 64n);
  const memory = new RequestMemory(regions);
  const part = { region: "r", offset: 0n, byteSize: 4n };
  const target = memory.target(part);
  state.fault = "reading shared memory: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable";
  assert.throws(() => memory.bytes(part), refusal("internal", state.fault));
  const output = { name: "X", datatype: "UINT8", shape: [1], data: Uint8Array.of(1) } as const;
  assert.throws(() => writeOutput(target, output), refusal("internal", state.fault));
  regions.unregister("r", "cuda");
  memory.release();
  assert.deepEqual(state.log, [`shared_memory: failed to close CUDA IPC handle: ${state.fault}`]);
});
