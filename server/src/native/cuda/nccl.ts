/**
 * NCCL communicators and collectives for several GPUs. Source: NVIDIA NCCL documentation. All calls run on the thread
 * whose CUDA context is the rank's GPU. Knows no model.
 */

import { type Address, type NativeFunction, openLibrary, structType } from "../ffi.ts";
import { expectCudaLibrary } from "./libraries.ts";

/** ncclUniqueId: rank 0 creates it, all ranks of a communicator receive it. */
export const NCCL_ID_BYTES = 128;

/** ncclDataType_t */
export const NCCL_TYPES = { f32: 7, bf16: 9 } as const;
export type NcclType = keyof typeof NCCL_TYPES;
const SUM = 0;

export interface NcclCommunicator {
  readonly rank: number;
  readonly numRanks: number;
  /** `to` may equal `from` (in place). */
  allReduce(from: Address, to: Address, count: number, type: NcclType, stream: Address): void;
  /** `to` has space for `count` elements per rank, in rank order; `from` may be this rank's part of it. */
  allGather(from: Address, to: Address, count: number, type: NcclType, stream: Address): void;
  send(from: Address, count: number, type: NcclType, peer: number, stream: Address): void;
  receive(to: Address, count: number, type: NcclType, peer: number, stream: Address): void;
  close(): void;
}

export interface Nccl {
  readonly path: string;
  /** e.g. "2.28.9" */
  readonly version: string;
  uniqueId(): Uint8Array;
  /** Blocks this thread until all ranks have joined. @throws Error with NCCL's reason */
  join(id: Uint8Array, rank: number, numRanks: number): NcclCommunicator;
}

type Call<Args extends unknown[]> = NativeFunction<Args, number>;

interface NcclCalls {
  readonly version: Call<[Int32Array]>;
  readonly uniqueId: Call<[Uint8Array]>;
  readonly join: Call<[BigUint64Array, number, { readonly internal: Int8Array }, number]>;
  readonly destroy: Call<[Address]>;
  readonly allReduce: Call<[Address, Address, bigint, number, number, Address, Address]>;
  readonly allGather: Call<[Address, Address, bigint, number, Address, Address]>;
  readonly send: Call<[Address, bigint, number, number, Address, Address]>;
  readonly receive: Call<[Address, bigint, number, number, Address, Address]>;
  readonly errorText: NativeFunction<[number], string>;
  readonly lastError: NativeFunction<[Address], string>;
}

let opened: Nccl | undefined;

/** Once per thread. @throws Error when the library is missing */
export function openNccl(path: string = expectCudaLibrary("nccl")): Nccl {
  if (opened?.path === path) return opened;
  const calls = loadCalls(path);
  const version = new Int32Array(1);
  check(calls, calls.version(version), "asking for the version of NCCL");
  opened = {
    path,
    version: versionText(version[0] ?? 0),
    uniqueId: () => {
      const id = new Uint8Array(NCCL_ID_BYTES);
      check(calls, calls.uniqueId(id), "making the id of a communicator");
      return id;
    },
    join: (id, rank, numRanks) => join(calls, id, rank, numRanks),
  };
  return opened;
}

/** NCCL's version encoding since 2.9: 22809 is 2.28.9. */
export function versionText(version: number): string {
  return `${Math.floor(version / 10_000)}.${Math.floor(version / 100) % 100}.${version % 100}`;
}

function join(calls: NcclCalls, id: Uint8Array, rank: number, numRanks: number): NcclCommunicator {
  if (id.length !== NCCL_ID_BYTES) throw new Error(`NCCL: expected an id of ${NCCL_ID_BYTES} bytes, got ${id.length}`);
  const out = new BigUint64Array(1);
  const internal = new Int8Array(id);
  check(calls, calls.join(out, numRanks, { internal }, rank), `joining ${numRanks} GPUs as rank ${rank}`);
  const communicator = out[0] ?? 0n;
  const expect = (status: number, doing: string): void => {
    if (status !== 0) check(calls, status, doing);
  };
  return {
    rank,
    numRanks,
    allReduce: (from, to, count, type, stream) =>
      expect(
        calls.allReduce(from, to, BigInt(count), NCCL_TYPES[type], SUM, communicator, stream),
        `summing ${count} elements over ${numRanks} GPUs`,
      ),
    allGather: (from, to, count, type, stream) =>
      expect(
        calls.allGather(from, to, BigInt(count), NCCL_TYPES[type], communicator, stream),
        `gathering ${count} elements of each of ${numRanks} GPUs`,
      ),
    send: (from, count, type, peer, stream) =>
      expect(
        calls.send(from, BigInt(count), NCCL_TYPES[type], peer, communicator, stream),
        `sending ${count} elements to rank ${peer}`,
      ),
    receive: (to, count, type, peer, stream) =>
      expect(
        calls.receive(to, BigInt(count), NCCL_TYPES[type], peer, communicator, stream),
        `receiving ${count} elements of rank ${peer}`,
      ),
    close: () => check(calls, calls.destroy(communicator), "leaving a communicator"),
  };
}

function loadCalls(path: string): NcclCalls {
  const library = openLibrary(path);
  const id = structType("ncclUniqueId", { internal: `char[${NCCL_ID_BYTES}]` });
  return {
    version: library.func("ncclGetVersion", "int", ["void*"]),
    uniqueId: library.func("ncclGetUniqueId", "int", ["void*"]),
    join: library.func("ncclCommInitRank", "int", ["void*", "int", id, "int"]),
    destroy: library.func("ncclCommDestroy", "int", ["size_t"]),
    allReduce: library.func("ncclAllReduce", "int", ["size_t", "size_t", "size_t", "int", "int", "size_t", "size_t"]),
    allGather: library.func("ncclAllGather", "int", ["size_t", "size_t", "size_t", "int", "size_t", "size_t"]),
    send: library.func("ncclSend", "int", ["size_t", "size_t", "int", "int", "size_t", "size_t"]),
    receive: library.func("ncclRecv", "int", ["size_t", "size_t", "int", "int", "size_t", "size_t"]),
    errorText: library.func("ncclGetErrorString", "str", ["int"]),
    lastError: library.func("ncclGetLastError", "str", ["size_t"]),
  };
}

function check(calls: NcclCalls, status: number, doing: string): void {
  if (status === 0) return;
  const detail = calls.lastError(0n);
  const more = detail === "" ? "" : ` (${detail.trim()})`;
  throw new Error(`${doing}: NCCL: ${calls.errorText(status)}${more}`);
}
