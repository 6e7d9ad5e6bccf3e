/**
 * The processor as a device: ggml's backend and its threads. It runs graphs off the event loop; it does not know what
 * they compute.
 */
import { loadavg } from "node:os";
import type { Address } from "../../native/ffi.ts";
import { expectAddress, type Ggml, openGgml, threadpoolParams } from "../../native/ggml/ggml.ts";
import { availableProcessors } from "./available-processors.ts";
import type { CpuTensorSpec } from "./cpu-tensor.ts";
import { DenseGemms, type GraphGemms } from "./dense-gemm.ts";
import { GemmMemory } from "./gemm-memory.ts";
import { type KnownThreads, ThreadLadder } from "./thread-ladder.ts";

export interface CpuDeviceOptions {
  /** Threads of a graph; capped by the processors there are. Undefined: those that are idle now. */
  readonly numThreads?: number | undefined;
  /** The result of a row depends on that row alone, to the bit: not on other rows, nor on their number. */
  readonly isDeterministic?: boolean | undefined;
  /** Threads that were fastest before, for those that `numThreads` allows. */
  readonly knownThreads?: KnownThreads | undefined;
  readonly ggml?: Ggml;
}

/**
 * How long ggml's worker threads spin for the next graph before they sleep, in its own unit. One unit saves a step that follows
 * at once 0.1 ms of waking them, and costs an engine that falls idle some 15 ms of one processor, once.
 */
const POLLING = 1;

/** At least one. `load` is the system's average of running threads over the last minute. */
export function numIdleProcessors(numProcessors: number, load: number): number {
  return Math.max(1, numProcessors - Math.round(load));
}

export class CpuDevice {
  readonly ggml: Ggml;
  readonly numThreads: number;
  readonly isDeterministic: boolean;
  /** Kind of memory that its tensors live in. */
  readonly bufferType: Address;
  #denseGemms: DenseGemms | undefined;
  readonly #gemmMemory: GemmMemory;
  readonly #ladder: ThreadLadder;
  readonly #backend: Address;
  readonly #threadpool: Address;
  #inFlight: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: CpuDeviceOptions = {}) {
    const wanted = options.numThreads ?? numIdleProcessors(availableProcessors(), loadavg()[0] ?? 0);
    if (!Number.isInteger(wanted) || wanted < 1)
      throw new Error(`numThreads: expected a positive integer, got ${wanted}`);
    this.ggml = options.ggml ?? openGgml();
    // Threads beyond the processors would spin at each barrier for one that does not run.
    this.numThreads = Math.min(wanted, availableProcessors());
    this.isDeterministic = options.isDeterministic ?? false;
    const { base, cpu, device } = this.ggml;
    this.bufferType = expectAddress(base.deviceBufferType(device), "a buffer type");
    this.#ladder = new ThreadLadder(this.numThreads, options.knownThreads);
    this.#gemmMemory = new GemmMemory(this.ggml);
    this.#backend = this.ggml.createBackend();
    this.#threadpool = expectAddress(cpu.threadpoolNew(threadpoolParams(base, this.numThreads, POLLING)), "threads");
    cpu.setThreadpool(this.#backend, this.#threadpool);
    cpu.setUseReference(this.#backend, this.isDeterministic);
  }

  /** Target of packed weights: the kind of device, and the version of the library whose blocks they are. */
  get target(): { readonly device: string; readonly kernels: string } {
    return { device: "cpu", kernels: `ggml ${this.ggml.version.split(".").slice(0, 2).join(".")}` };
  }

  /** Kind of memory for a matrix that is only multiplied with; undefined: the usual one. */
  gemmMemory(spec: CpuTensorSpec): Address | undefined {
    // With such memory the result of a row depends on the number of rows.
    return this.isDeterministic ? undefined : this.#gemmMemory.choose(spec);
  }

  /** Undefined: ggml computes all products. */
  get denseGemms(): DenseGemms | undefined {
    return this.#denseGemms;
  }

  /** For graphs made from now on that multiply many rows with matrices of f32. Does nothing where it gains nothing. */
  useDenseGemms(): void {
    if (!this.isDeterministic) this.#denseGemms ??= DenseGemms.for(this.numThreads);
  }

  /** Runs an allocated graph over `numRows` rows, and `products` where it comes to them. One at a time: the next waits. */
  compute(graph: Address, numRows: number, products?: GraphGemms): Promise<void> {
    if (this.#isClosed) return Promise.reject(new Error("the CPU device is closed"));
    const turn = this.#inFlight.then(() =>
      products === undefined || products.count === 0
        ? this.#computeTimed(graph, numRows)
        : this.#computeWithGemms(graph, products),
    );
    this.#inFlight = turn.catch(() => undefined);
    return turn;
  }

  /** Waits for the graph in flight, then stops the threads. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#inFlight;
    this.#denseGemms?.close();
    this.ggml.base.backendFree(this.#backend);
    this.ggml.cpu.threadpoolFree(this.#threadpool);
  }

  async #computeTimed(graph: Address, numRows: number): Promise<void> {
    this.ggml.cpu.setNumThreads(this.#backend, this.#ladder.choose(numRows));
    const startMs = performance.now();
    await this.#computeNow(graph);
    this.#ladder.took(numRows, performance.now() - startMs);
  }

  /** Threads of ggml would spin while a product has theirs: one is left, and products have all. */
  async #computeWithGemms(graph: Address, products: GraphGemms): Promise<void> {
    this.ggml.cpu.setNumThreads(this.#backend, 1);
    if (products.isShort) {
      await new Promise(setImmediate); // a caller that steps again and again must receive new events
      expectDone(this.ggml.base.compute(this.#backend, graph));
    } else await this.#computeNow(graph);
    products.expectDone();
  }

  #computeNow(graph: Address): Promise<void> {
    return new Promise<number>((resolve, reject) => {
      this.ggml.base.compute.async(this.#backend, graph, (error, status) => {
        if (error !== null && error !== undefined) reject(error);
        else resolve(status);
      });
    }).then(expectDone);
  }
}

function expectDone(status: number): void {
  if (status !== 0) throw new Error(`ggml could not compute a graph: status ${status}`);
}
