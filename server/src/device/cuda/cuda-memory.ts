/** Memory on the device, and memory of the host that the device copies from at full speed. Knows no tensor. */
import type { CudaDriver } from "../../native/cuda/cuda.ts";
import { type Address, viewMemory } from "../../native/ffi.ts";
import type { DevicePointer } from "./kernel-stream.ts";

export class CudaBuffer {
  readonly label: string;
  readonly address: DevicePointer;
  readonly numBytes: number;
  readonly #driver: CudaDriver;
  #isClosed = false;

  /** The memory is not cleared. @throws CudaError when there is not enough */
  constructor(driver: CudaDriver, label: string, numBytes: number) {
    const out = new BigUint64Array(1);
    driver.check(driver.calls.allocate(out, BigInt(numBytes)), `allocating ${numBytes} bytes for ${label}`);
    this.#driver = driver;
    this.label = label;
    this.address = out[0] ?? 0n;
    this.numBytes = numBytes;
  }

  /** Waits for all work of the device. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#driver.check(this.#driver.calls.free(this.address), `freeing ${this.label}`);
  }
}

/** Locked pages of the host. */
export class PinnedBuffer {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly address: Address;
  readonly #driver: CudaDriver;
  #isClosed = false;

  /** @throws CudaError when the system does not lock so many pages */
  constructor(driver: CudaDriver, numBytes: number) {
    const out = new BigUint64Array(1);
    driver.check(driver.calls.allocateHost(out, BigInt(numBytes), 0), `locking ${numBytes} bytes of host memory`);
    this.#driver = driver;
    this.address = out[0] ?? 0n;
    this.bytes = viewMemory(this.address, numBytes) as Uint8Array<ArrayBuffer>;
  }

  /** Views of it must not be used afterwards. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#driver.check(this.#driver.calls.freeHost(this.address), "unlocking host memory");
  }
}
