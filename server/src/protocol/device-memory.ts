/** GPU memory as the memory of a region, copied through the host (Triton's CUDA shared memory extension). */
import { invalidArgument, ServerError } from "../core/server-error.ts";
import type { SharedDeviceMemory, SharedDevices } from "../native/cuda/shared-memory.ts";
import type { Logger } from "../observe/log.ts";
import type { RegionMemory } from "./region.ts";

export interface OpenedRegion {
  readonly memory: RegionMemory;
  /** Size of the memory behind the handle. */
  readonly numBytes: number;
}

/** Opens handles of memory on GPUs. */
export class DeviceRegions {
  readonly #devices: SharedDevices;
  readonly #log: Logger;

  constructor(devices: SharedDevices, log: Logger) {
    this.#devices = devices;
    this.#log = log;
  }

  /** @throws ServerError; the cause is in the log, as upstream */
  open(handle: Uint8Array, deviceId: number): OpenedRegion {
    try {
      const opened = this.#devices.openMemory(handle, deviceId);
      return { memory: new DeviceMemory(opened, this.#log), numBytes: opened.numBytes };
    } catch (error) {
      this.#log.error("shared_memory", `failed to open CUDA IPC handle: ${reasonOf(error)}`);
      throw invalidArgument("failed to register shared memory region: invalid args");
    }
  }
}

class DeviceMemory implements RegionMemory {
  readonly #opened: SharedDeviceMemory;
  readonly #log: Logger;

  constructor(opened: SharedDeviceMemory, log: Logger) {
    this.#opened = opened;
    this.#log = log;
  }

  read(offset: number, byteSize: number): Uint8Array {
    const bytes = new Uint8Array(byteSize);
    if (byteSize > 0) expectDone(() => this.#opened.read(offset, bytes));
    return bytes;
  }

  write(offset: number, data: Uint8Array): void {
    if (data.length > 0) expectDone(() => this.#opened.write(offset, data));
  }

  isIntact(): boolean {
    return true;
  }

  isBehind(): boolean {
    return false;
  }

  close(): void {
    try {
      this.#opened.close();
    } catch (error) {
      this.#log.error("shared_memory", `failed to close CUDA IPC handle: ${reasonOf(error)}`);
    }
  }
}

function expectDone(copy: () => void): void {
  try {
    copy();
  } catch (error) {
    throw new ServerError("internal", reasonOf(error));
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
