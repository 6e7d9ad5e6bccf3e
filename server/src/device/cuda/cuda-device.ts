/**
 * One GPU of this process: its context, its kernels, its memory and the libraries that go with it. The context is that
 * of the thread that opened it: everything here is called on that thread.
 */

import process from "node:process";
import type { Environment } from "../../core/environment.ts";
import { type CublasLt, openCublasLt } from "../../native/cuda/cublaslt.ts";
import { type CudaDriver, openCuda } from "../../native/cuda/cuda.ts";
import { CUDA_STATUS, DEVICE_ATTRIBUTES } from "../../native/cuda/functions.ts";
import { CudaBuffer, PinnedBuffer } from "./cuda-memory.ts";
import { CudaModules } from "./cuda-modules.ts";
import { CudaEvent, CudaStream, type StreamOwner } from "./cuda-stream.ts";

/** Below this no kernel of Nereid runs: bf16 on the matrix units came with it. */
export const MIN_CAPABILITY = 80;

export class CudaDevice implements StreamOwner {
  readonly driver: CudaDriver;
  readonly ordinal: number;
  readonly name: string;
  readonly arch: string;
  readonly numSms: number;
  readonly modules: CudaModules;
  readonly overlapsLaunches: boolean;
  readonly checksLaunches: boolean;
  /** All work of the model goes here. */
  readonly stream: CudaStream;
  readonly #device: number;
  #lt: CublasLt | undefined;
  #broken: Error | undefined;

  /** @throws Error when there is no such device, or it is too old */
  constructor(ordinal = 0, options: { readonly overlapsLaunches?: boolean; readonly checksLaunches?: boolean } = {}) {
    this.driver = openCuda();
    this.ordinal = ordinal;
    const environment: Environment = process.env;
    this.overlapsLaunches = options.overlapsLaunches ?? true;
    this.checksLaunches = options.checksLaunches ?? environment.NEREID_CHECK_LAUNCHES === "1";
    this.#device = openDevice(this.driver, ordinal);
    const { calls, check } = this.driver;
    const context = new BigUint64Array(1);
    check(calls.retainContext(context, this.#device), `opening GPU ${ordinal}`);
    check(calls.setContext(context[0] ?? 0n), `opening GPU ${ordinal}`);
    const name = Buffer.alloc(256);
    check(calls.deviceName(name, name.length, this.#device), "asking for the name of a GPU");
    this.name = name.toString("utf8").replace(/\0.*$/s, "");
    const { computeCapabilityMajor, computeCapabilityMinor, multiprocessorCount } = DEVICE_ATTRIBUTES;
    const capability = 10 * this.#attribute(computeCapabilityMajor) + this.#attribute(computeCapabilityMinor);
    if (capability < MIN_CAPABILITY) {
      throw new Error(
        `GPU ${ordinal} (${this.name}): expected compute capability 8.0 or later, got ${capability / 10}`,
      );
    }
    this.arch = archOf(capability);
    this.numSms = this.#attribute(multiprocessorCount);
    this.modules = new CudaModules(this.driver, this.arch);
    this.stream = new CudaStream(this);
  }

  /** Loaded when first asked for. */
  get lt(): CublasLt {
    this.#lt ??= openCublasLt();
    return this.#lt;
  }

  allocate(label: string, numBytes: number): CudaBuffer {
    return new CudaBuffer(this.driver, label, numBytes);
  }

  pin(numBytes: number): PinnedBuffer {
    return new PinnedBuffer(this.driver, numBytes);
  }

  event(hasTime = false): CudaEvent {
    return new CudaEvent(this.driver, hasTime, () => {
      if (this.#broken !== undefined) throw this.#broken;
    });
  }

  /** Work beside that of the model. */
  newStream(): CudaStream {
    return new CudaStream(this);
  }

  /** The device waits for something that will never happen: waits for its events end with this error. */
  giveUp(error: Error): void {
    this.#broken ??= error;
  }

  /** Lets kernels here reach the memory of another GPU of this process. False where the hardware does not. */
  reachPeer(ordinal: number): boolean {
    const { calls, check } = this.driver;
    const peer = openDevice(this.driver, ordinal);
    const answer = new Int32Array(1);
    check(calls.canAccessPeer(answer, this.#device, peer), `asking whether GPU ${this.ordinal} reaches GPU ${ordinal}`);
    if (answer[0] !== 1) return false;
    const context = new BigUint64Array(1);
    check(calls.retainContext(context, peer), `opening GPU ${ordinal}`);
    const status = calls.enablePeerAccess(context[0] ?? 0n, 0);
    if (status !== CUDA_STATUS.peerAccessAlreadyEnabled) {
      check(status, `letting GPU ${this.ordinal} reach GPU ${ordinal}`);
    }
    return true;
  }

  memory(): { readonly freeBytes: number; readonly totalBytes: number } {
    const free = new BigUint64Array(1);
    const total = new BigUint64Array(1);
    this.driver.check(this.driver.calls.memoryInfo(free, total), "asking for the memory of a GPU");
    return { freeBytes: Number(free[0] ?? 0n), totalBytes: Number(total[0] ?? 0n) };
  }

  /** Everything that it has given out must be closed before. */
  close(): void {
    this.stream.synchronize();
    this.stream.close();
    this.modules.close();
    this.driver.check(this.driver.calls.releaseContext(this.#device), `closing GPU ${this.ordinal}`);
  }

  #attribute(attribute: number): number {
    const value = new Int32Array(1);
    this.driver.check(
      this.driver.calls.deviceAttribute(value, attribute, this.#device),
      "asking for a GPU's properties",
    );
    return value[0] ?? 0;
  }
}

/** Architecture to compile for. The suffix "a" allows features of this architecture only. */
export function archOf(capability: number): string {
  return capability === 90 ? "sm_90a" : `sm_${capability}`;
}

function openDevice({ calls, check }: CudaDriver, ordinal: number): number {
  const out = new Int32Array(1);
  check(calls.deviceCount(out), "counting GPUs");
  const count = out[0] ?? 0;
  if (ordinal < 0 || ordinal >= count) throw new Error(`expected a GPU from 0 to ${count - 1}, got ${ordinal}`);
  check(calls.device(out, ordinal), `opening GPU ${ordinal}`);
  return out[0] ?? 0;
}
