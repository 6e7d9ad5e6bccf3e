/**
 * Several GPUs that exchange data through NCCL, as one of them: what is enqueued on the device's stream can be recorded.
 * Knows no model.
 */
import { type NcclCommunicator, type NcclType, openNccl } from "../../native/cuda/nccl.ts";
import type { CudaDevice } from "./cuda-device.ts";
import type { DevicePointer } from "./kernel-stream.ts";

/** For rank 0 to make and to hand to the others. @throws Error when there is no NCCL */
export function newGroupId(): Uint8Array {
  return openNccl().uniqueId();
}

/** @throws Error that says where NCCL was looked for and what to install */
export function describeNccl(): string {
  const { path, version } = openNccl();
  return `NCCL ${version} (${path})`;
}

export class CudaCommunicator {
  readonly rank: number;
  readonly numRanks: number;
  readonly #device: CudaDevice;
  readonly #nccl: NcclCommunicator;

  /** Waits, on this thread, until all ranks have come. */
  constructor(device: CudaDevice, id: Uint8Array, rank: number, numRanks: number) {
    this.rank = rank;
    this.numRanks = numRanks;
    this.#device = device;
    this.#nccl = openNccl().join(id, rank, numRanks);
  }

  /** In place. */
  sum(at: DevicePointer, count: number, type: NcclType): void {
    this.#nccl.allReduce(at, at, count, type, this.#device.stream.address);
  }

  /** `parts`: room for `count` elements of each rank, this rank's in its place. */
  gather(parts: DevicePointer, count: number, type: NcclType, elementBytes: number): void {
    const own = parts + BigInt(this.rank * count * elementBytes);
    this.#nccl.allGather(own, parts, count, type, this.#device.stream.address);
  }

  send(from: DevicePointer, count: number, type: NcclType, peer: number): void {
    this.#nccl.send(from, count, type, peer, this.#device.stream.address);
  }

  receive(to: DevicePointer, count: number, type: NcclType, peer: number): void {
    this.#nccl.receive(to, count, type, peer, this.#device.stream.address);
  }

  /** The words of all ranks, in their order. Waits for them. */
  exchange(words: Uint32Array): Uint32Array {
    const { stream } = this.#device;
    const all = new Uint32Array(words.length * this.numRanks);
    const buffer = this.#device.allocate("what GPUs tell each other", all.byteLength);
    stream.copyToDevice(buffer.address + BigInt(this.rank * words.byteLength), words, words.byteLength);
    this.gather(buffer.address, words.length, "f32", 4);
    stream.copyToHost(all, buffer.address, all.byteLength);
    stream.synchronize();
    buffer.close();
    return all;
  }

  close(): void {
    this.#nccl.close();
  }
}
