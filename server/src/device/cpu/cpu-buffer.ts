/** Tensors that outlive a graph: weights and caches. Owns their memory; does not know what they mean. */
import type { Address } from "../../native/ffi.ts";
import { expectAddress, GGML_TYPES } from "../../native/ggml/ggml.ts";
import { adviseHugePages } from "../../native/huge-pages.ts";
import type { CpuDevice } from "./cpu-device.ts";
import { byteSize, type CpuTensor, type CpuTensorSpec, expectWholeBlocks } from "./cpu-tensor.ts";

/** The memory is not cleared: the system commits its pages when they are first written. */
export class CpuBuffer {
  readonly tensors: readonly CpuTensor[];
  readonly numBytes: number;
  readonly #device: CpuDevice;
  readonly #context: Address;
  readonly #memory: Address;
  #isClosed = false;

  /** `kind` of memory: undefined for the device's usual one. @throws Error when the memory cannot be had */
  constructor(device: CpuDevice, specs: readonly CpuTensorSpec[], kind: Address = device.bufferType) {
    const { base } = device.ggml;
    this.#device = device;
    const contextBytes = (specs.length + 1) * base.tensorOverhead();
    this.#context = expectAddress(base.init({ mem_size: contextBytes, mem_buffer: null, no_alloc: true }), "a context");
    this.tensors = specs.map((spec) => createTensor(device, this.#context, spec));
    const memory = base.allocateContext(this.#context, kind);
    if (memory === null) {
      base.free(this.#context);
      const needed = specs.reduce((sum, spec) => sum + byteSize(spec), 0);
      throw new Error(`the CPU device could not reserve ${needed} bytes`);
    }
    this.#memory = memory;
    this.numBytes = base.bufferSize(memory);
    const address = base.bufferBase(memory);
    if (address !== null) adviseHugePages(address, this.numBytes);
  }

  /** Copies `data` to the bytes of `tensor` that begin at `byteOffset`. */
  write(tensor: CpuTensor, data: Uint8Array | Float32Array | Uint16Array, byteOffset = 0): void {
    this.#checkRange(tensor, byteOffset, data.byteLength);
    this.#device.ggml.base.tensorSet(tensor.handle, data, byteOffset, data.byteLength);
  }

  /** Fills `into` from the bytes of `tensor` that begin at `byteOffset`. */
  read(tensor: CpuTensor, into: Uint8Array | Float32Array | Uint16Array, byteOffset = 0): void {
    this.#checkRange(tensor, byteOffset, into.byteLength);
    this.#device.ggml.base.tensorGet(tensor.handle, into, byteOffset, into.byteLength);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#device.ggml.base.bufferFree(this.#memory);
    this.#device.ggml.base.free(this.#context);
  }

  #checkRange(tensor: CpuTensor, byteOffset: number, numBytes: number): void {
    if (this.#isClosed) throw new Error("the buffer is closed");
    const size = byteSize(tensor);
    if (byteOffset >= 0 && numBytes <= size - byteOffset) return;
    throw new Error(`bytes ${byteOffset} to ${byteOffset + numBytes} lie outside a tensor of ${size} bytes`);
  }
}

function createTensor(device: CpuDevice, context: Address, spec: CpuTensorSpec): CpuTensor {
  if (!spec.shape.every((size) => Number.isSafeInteger(size) && size > 0)) {
    throw new Error(`expected sizes above zero, got [${spec.shape.join(", ")}]`);
  }
  expectWholeBlocks(spec.type, spec.shape);
  const handle = newTensor(device, context, spec);
  return { handle, type: spec.type, shape: spec.shape };
}

function newTensor(device: CpuDevice, context: Address, spec: CpuTensorSpec): Address {
  const { base } = device.ggml;
  const type = GGML_TYPES[spec.type];
  const [outer, middle, inner] = spec.shape;
  if (middle === undefined) return base.newTensor1d(context, type, outer);
  if (inner === undefined) return base.newTensor2d(context, type, middle, outer);
  return base.newTensor3d(context, type, inner, middle, outer);
}
