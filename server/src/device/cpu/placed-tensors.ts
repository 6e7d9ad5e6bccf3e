/** Tensors that outlive a graph, each in the kind of memory that suits it. It does not know what they mean. */
import { expectAt } from "../../core/expect-at.ts";
import type { Address } from "../../native/ffi.ts";
import { CpuBuffer } from "./cpu-buffer.ts";
import type { CpuDevice } from "./cpu-device.ts";
import type { CpuTensorSpec } from "./cpu-tensor.ts";
import { byteSize, type CpuTensor } from "./cpu-tensor.ts";

export interface PlacedSpec extends CpuTensorSpec {
  /** Only multiplied with: it may live where it cannot be read back, nor its rows be looked up. */
  readonly isGemmOperand: boolean;
}

interface Place {
  readonly buffer: CpuBuffer;
  readonly tensor: CpuTensor;
  /** Written in one piece, because its memory lays it out anew. */
  readonly isWhole: boolean;
}

export class PlacedTensors {
  /** In the order of the specs. */
  readonly tensors: readonly CpuTensor[];
  readonly numBytes: number;
  readonly #device: CpuDevice;
  readonly #places: readonly Place[];
  readonly #buffers: readonly CpuBuffer[];

  /** @throws Error when the memory cannot be had */
  constructor(device: CpuDevice, specs: readonly PlacedSpec[]) {
    this.#device = device;
    const groups = new Map<Address, number[]>();
    for (const [i, spec] of specs.entries()) {
      const kind = (spec.isGemmOperand ? device.gemmMemory(spec) : undefined) ?? device.bufferType;
      groups.set(kind, [...(groups.get(kind) ?? []), i]);
    }
    const buffers: CpuBuffer[] = [];
    const places: Place[] = [];
    this.#buffers = buffers;
    this.#places = places;
    try {
      for (const [kind, indices] of groups) {
        const buffer = new CpuBuffer(
          device,
          indices.map((i) => expectAt(specs, i)),
          kind,
        );
        buffers.push(buffer);
        for (const [k, i] of indices.entries()) {
          places[i] = { buffer, tensor: expectAt(buffer.tensors, k), isWhole: kind !== device.bufferType };
        }
      }
    } catch (error) {
      this.close();
      throw error;
    }
    this.tensors = places.map(({ tensor }) => tensor);
    this.numBytes = buffers.reduce((sum, { numBytes }) => sum + numBytes, 0);
  }

  /** Takes the bytes of a tensor piece by piece. `end()` once all are there. */
  writer(index: number): { write(piece: Uint8Array | Float32Array): void; end(): void } {
    const { buffer, tensor, isWhole } = expectAt(this.#places, index);
    const size = byteSize(tensor);
    const whole = isWhole ? new Uint8Array(size) : undefined;
    let written = 0;
    return {
      write: (piece) => {
        if (whole === undefined) buffer.write(tensor, piece, written);
        else whole.set(new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength), written);
        written += piece.byteLength;
      },
      end: () => {
        if (written !== size) throw new Error(`expected ${size} bytes of a tensor, got ${written}`);
        // It would report each tensor that it lays out.
        if (whole !== undefined) this.#device.ggml.quietly(() => buffer.write(tensor, whole));
      },
    };
  }

  close(): void {
    for (const buffer of this.#buffers) buffer.close();
  }
}
