/** The context of kernel checks on a real GPU. */

import type { CudaCheckContext } from "../../server/kernels/testing/cuda-check.ts";
import type { CudaDevice } from "../../server/src/device/cuda/cuda-device.ts";
import type { CudaBuffer } from "../../server/src/device/cuda/cuda-memory.ts";
import type { CudaStream } from "../../server/src/device/cuda/cuda-stream.ts";

/** Kernels may look a vector further than they use. */
const SLACK_BYTES = 256;

export class DeviceCheckContext implements CudaCheckContext {
  readonly stream: CudaStream;
  readonly #device: CudaDevice;
  readonly #buffers: CudaBuffer[] = [];

  constructor(device: CudaDevice) {
    this.#device = device;
    this.stream = device.stream;
  }

  upload(bytes: ArrayBufferView): bigint {
    const { address } = this.#take(bytes.byteLength);
    if (bytes.byteLength > 0) this.stream.copyToDevice(address, bytes, bytes.byteLength);
    this.stream.synchronize();
    return address;
  }

  allocate(numBytes: number): bigint {
    return this.#filled(numBytes, 0xff);
  }

  zeros(numBytes: number): bigint {
    return this.#filled(numBytes, 0);
  }

  async download(from: bigint, into: ArrayBufferView): Promise<void> {
    this.stream.copyToHost(into, from, into.byteLength);
    this.stream.synchronize();
  }

  /** Frees what a check has taken. */
  clear(): void {
    this.stream.synchronize();
    for (const buffer of this.#buffers) buffer.close();
    this.#buffers.length = 0;
  }

  #filled(numBytes: number, byte: number): bigint {
    const { address } = this.#take(numBytes);
    if (numBytes > 0) this.stream.fill(address, byte, numBytes);
    return address;
  }

  #take(numBytes: number): CudaBuffer {
    const buffer = this.#device.allocate("a check", numBytes + SLACK_BYTES);
    this.#buffers.push(buffer);
    return buffer;
  }
}
