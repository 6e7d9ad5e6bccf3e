/** Work recorded once and launched again and again at the price of one call. */
import type { CudaDriver } from "../../native/cuda/cuda.ts";
import { CAPTURE_THREAD_LOCAL } from "../../native/cuda/functions.ts";
import type { Address } from "../../native/ffi.ts";
import type { CudaStream } from "./cuda-stream.ts";

export class CudaGraph {
  readonly #driver: CudaDriver;
  readonly #executable: Address;

  /**
   * Records what `record` enqueues on `stream`; nothing of it runs. Kernels must have been loaded and algorithms chosen
   * before: neither may happen inside. All pointers stay as they are recorded.
   */
  constructor(driver: CudaDriver, stream: CudaStream, record: () => void) {
    const { calls, check } = driver;
    this.#driver = driver;
    check(calls.beginCapture(stream.address, CAPTURE_THREAD_LOCAL), "starting to record a graph");
    const graph = new BigUint64Array(1);
    try {
      record();
    } catch (error) {
      calls.endCapture(stream.address, graph);
      throw error;
    }
    check(calls.endCapture(stream.address, graph), "recording a graph");
    const out = new BigUint64Array(1);
    const status = calls.instantiateGraph(out, graph[0] ?? 0n, 0n);
    calls.destroyGraph(graph[0] ?? 0n);
    check(status, "preparing a graph");
    this.#executable = out[0] ?? 0n;
  }

  launch(stream: CudaStream): void {
    const status = this.#driver.calls.launchGraph(this.#executable, stream.address);
    if (status !== 0) this.#driver.check(status, "launching a graph");
  }

  close(): void {
    this.#driver.check(this.#driver.calls.destroyExecutable(this.#executable), "closing a graph");
  }
}
