/** Times ways to do the same work on a device, each as it runs in a model: with its matrix not in the cache. */
import { CudaError } from "../../native/cuda/cuda.ts";
import type { CudaDevice } from "./cuda-device.ts";
import type { CudaBuffer } from "./cuda-memory.ts";
import type { CudaEvent } from "./cuda-stream.ts";

export interface Measured<Algorithm> {
  readonly algorithm: Algorithm;
  readonly us: number;
}

export interface AlgorithmTimer {
  /** Microseconds that the device takes for what `enqueue` enqueues. */
  time(enqueue: () => void): number;
}

/** Larger than any cache of a GPU of today. */
const FLUSH_BYTES = 160 << 20;
const REPEATS = 4;
/** Times above this differ little from run to run. */
const LONG_MS = 0.5;

/** Algorithms that fail are left out; the first error is thrown when all do, or when the device is lost with it. */
export function measureAlgorithms<Algorithm>(
  algorithms: readonly Algorithm[],
  timer: AlgorithmTimer,
  enqueue: (algorithm: Algorithm) => void,
): readonly Measured<Algorithm>[] {
  const measured: Measured<Algorithm>[] = [];
  let failure: unknown;
  for (const algorithm of algorithms) {
    try {
      measured.push({ algorithm, us: timer.time(() => enqueue(algorithm)) });
    } catch (error) {
      if (error instanceof CudaError && error.isSticky) throw error;
      failure ??= error;
    }
  }
  if (measured.length === 0 && failure !== undefined) throw failure;
  return measured;
}

export class CudaTimer implements AlgorithmTimer {
  readonly #device: CudaDevice;
  readonly #start: CudaEvent;
  readonly #end: CudaEvent;
  #flush: CudaBuffer | undefined;

  constructor(device: CudaDevice) {
    this.#device = device;
    this.#start = device.event(true);
    this.#end = device.event(true);
  }

  /** The best of several runs. Waits for the device. */
  time(enqueue: () => void): number {
    const { stream } = this.#device;
    this.#flush ??= this.#device.allocate("measuring", FLUSH_BYTES);
    let bestMs = Number.POSITIVE_INFINITY;
    enqueue(); // whatever is done once only
    for (let i = 0; i < REPEATS; i++) {
      stream.fill(this.#flush.address, i, FLUSH_BYTES);
      this.#start.record(stream);
      enqueue();
      this.#end.record(stream);
      stream.synchronize();
      bestMs = Math.min(bestMs, this.#end.msSince(this.#start));
      if (bestMs > LONG_MS) break;
    }
    return bestMs * 1000;
  }

  close(): void {
    this.#start.close();
    this.#end.close();
    this.#flush?.close();
    this.#flush = undefined;
  }
}
