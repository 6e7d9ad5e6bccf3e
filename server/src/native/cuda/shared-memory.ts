/**
 * GPU memory that another process exported: opened by its IPC handle, read and written through the host. Source: CUDA
 * Driver API, cuIpcOpenMemHandle. The other process must keep the memory until it is closed here.
 */

import type { Address } from "../ffi.ts";
import { type CudaDriver, CudaError, openCuda } from "./cuda.ts";
import { SHARED_HANDLE_BYTES, STREAM_NON_BLOCKING } from "./functions.ts";

/** CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS */
const LAZY_PEER_ACCESS = 1;

export interface SharedDeviceMemory {
  /** Byte size of the whole allocation behind the handle. */
  readonly numBytes: number;
  /** Returns when the copy to the host is complete. @throws CudaError */
  read(offset: number, into: Uint8Array): void;
  /** Returns when the copy to the device is complete. @throws CudaError */
  write(offset: number, from: Uint8Array): void;
  /** @throws CudaError */
  close(): void;
}

interface OpenDevice {
  readonly context: Address;
  readonly stream: Address;
}

/** GPUs on which handles were opened: their contexts stay until the process ends. */
export class SharedDevices {
  readonly #open: () => CudaDriver;
  readonly #devices = new Map<number, OpenDevice>();

  constructor(open: () => CudaDriver = openCuda) {
    this.#open = open;
  }

  /** @throws Error when there is no such GPU, or the handle is not one of live memory */
  openMemory(handle: Uint8Array, ordinal: number): SharedDeviceMemory {
    if (handle.length !== SHARED_HANDLE_BYTES) {
      throw new Error(`expected a handle of ${SHARED_HANDLE_BYTES} bytes, got ${handle.length}`);
    }
    const driver = this.#open();
    const device = this.#enter(driver, ordinal);
    const out = new BigUint64Array(1);
    driver.check(
      driver.calls.openShared(out, { reserved: handle }, LAZY_PEER_ACCESS),
      `opening shared memory of GPU ${ordinal}`,
    );
    const address = out[0] ?? 0n;
    return new OpenedMemory(driver, device, address);
  }

  /** Makes the GPU's context current on this thread. */
  #enter(driver: CudaDriver, ordinal: number): OpenDevice {
    const { calls, check } = driver;
    const known = this.#devices.get(ordinal);
    if (known !== undefined) {
      check(calls.setContext(known.context), `choosing GPU ${ordinal}`);
      return known;
    }
    const number = new Int32Array(1);
    check(calls.deviceCount(number), "counting GPUs");
    const count = number[0] ?? 0;
    if (ordinal < 0 || ordinal >= count) throw new Error(`expected a GPU from 0 to ${count - 1}, got ${ordinal}`);
    check(calls.device(number, ordinal), `opening GPU ${ordinal}`);
    const out = new BigUint64Array(1);
    check(calls.retainContext(out, number[0] ?? 0), `opening GPU ${ordinal}`);
    const context = out[0] ?? 0n;
    check(calls.setContext(context), `opening GPU ${ordinal}`);
    check(calls.createStream(out, STREAM_NON_BLOCKING), "making a stream");
    const device = { context, stream: out[0] ?? 0n };
    this.#devices.set(ordinal, device);
    return device;
  }
}

class OpenedMemory implements SharedDeviceMemory {
  readonly numBytes: number;
  readonly #driver: CudaDriver;
  readonly #device: OpenDevice;
  readonly #address: Address;

  constructor(driver: CudaDriver, device: OpenDevice, address: Address) {
    this.#driver = driver;
    this.#device = device;
    this.#address = address;
    const [base, numBytes] = [new BigUint64Array(1), new BigUint64Array(1)];
    const status = driver.calls.addressRange(base, numBytes, address);
    if (status !== 0) this.close();
    driver.check(status, "asking for the size of shared memory");
    const end = (base[0] ?? 0n) + (numBytes[0] ?? 0n);
    this.numBytes = Number(end - address);
  }

  read(offset: number, into: Uint8Array): void {
    this.#expectWithin(offset, into.length);
    const { calls, check } = this.#enter();
    const { stream } = this.#device;
    const from = this.#address + BigInt(offset);
    check(calls.copyToHost(into, from, BigInt(into.length), stream), "reading shared memory");
    check(calls.synchronizeStream(stream), "reading shared memory");
  }

  write(offset: number, from: Uint8Array): void {
    this.#expectWithin(offset, from.length);
    const { calls, check } = this.#enter();
    const { stream } = this.#device;
    const to = this.#address + BigInt(offset);
    check(calls.copyToDevice(to, from, BigInt(from.length), stream), "writing shared memory");
    check(calls.synchronizeStream(stream), "writing shared memory");
  }

  close(): void {
    const { calls, check } = this.#enter();
    check(calls.closeShared(this.#address), "closing shared memory");
  }

  #enter(): CudaDriver {
    const driver = this.#driver;
    driver.check(driver.calls.setContext(this.#device.context), "choosing a GPU");
    return driver;
  }

  /** Callers validate client ranges; this prevents their mistakes from reaching other memory. */
  #expectWithin(offset: number, length: number): void {
    if (offset >= 0 && offset + length <= this.numBytes) return;
    throw new CudaError(
      "CUDA_ERROR_INVALID_VALUE",
      `expected bytes within ${this.numBytes}, got ${length} at ${offset}`,
    );
  }
}
