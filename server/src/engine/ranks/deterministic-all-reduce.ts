/**
 * Sums over GPUs that do not reach each other's memory, always in the order of ranks: the parts of all are gathered and then
 * added here. Each element is a function of its parts, which with NCCL's own sums depends on how many there are.
 */

import { ELEM_BYTES, type ElemType } from "../../../kernels/cuda/launch-args.ts";
import { launchAdd } from "../../../kernels/elementwise/elementwise.cuda.ts";
import type { CudaCommunicator } from "../../device/cuda/communicator.ts";
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import type { CudaBuffer } from "../../device/cuda/cuda-memory.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";

/** Bytes of each rank's part that are gathered at a time. */
const PIECE_BYTES: number = 4 << 20;

export class DeterministicAllReduce {
  readonly #device: Pick<CudaDevice, "stream">;
  readonly #group: Pick<CudaCommunicator, "rank" | "numRanks" | "gather">;
  readonly #parts: CudaBuffer;
  readonly #pieceBytes: number;

  constructor(
    device: Pick<CudaDevice, "stream" | "allocate">,
    group: Pick<CudaCommunicator, "rank" | "numRanks" | "gather">,
    pieceBytes: number = PIECE_BYTES,
  ) {
    this.#device = device;
    this.#group = group;
    this.#pieceBytes = pieceBytes;
    this.#parts = device.allocate("sums in the order of GPUs", group.numRanks * pieceBytes);
  }

  /** Replaces the numbers by their sums. Enqueues. */
  sum(at: DevicePointer, count: number, type: ElemType): void {
    const capacity = this.#pieceBytes / ELEM_BYTES[type];
    for (let first = 0; first < count; first += capacity) {
      this.#sumPiece(at + BigInt(first * ELEM_BYTES[type]), Math.min(capacity, count - first), type);
    }
  }

  close(): void {
    this.#parts.close();
  }

  #sumPiece(at: DevicePointer, count: number, type: ElemType): void {
    const { stream } = this.#device;
    const { rank, numRanks } = this.#group;
    const numBytes = count * ELEM_BYTES[type];
    const part = (of: number): DevicePointer => this.#parts.address + BigInt(of * numBytes);
    stream.copyOnDevice(part(rank), at, numBytes);
    this.#group.gather(this.#parts.address, count, type, ELEM_BYTES[type]);
    launchAdd(stream, { type, count, a: part(0), b: part(1), out: at });
    for (let next = 2; next < numRanks; next++) launchAdd(stream, { type, count, a: at, b: part(next), out: at });
  }
}
