/**
 * GEMMs of many rows with f32 matrices, computed by ONNX Runtime as nodes of ggml's graphs. Its blocks of rows are two
 * to three times as fast as ggml's, and its single rows slower. It knows no op and no model.
 */
import { type Address, type Callback, callback } from "../../native/ffi.ts";
import { GGML_TYPES, type Ggml } from "../../native/ggml/ggml.ts";
import type { FloatMatmul } from "../../native/onnxruntime/matmul-session.ts";
import { OnnxRuntime } from "../../native/onnxruntime/onnxruntime.ts";
import type { CpuTensor } from "./cpu-tensor.ts";

/** From here on it is faster: each GEMM packs the matrix anew, which costs more where that is no longer in a cache. */
const MIN_ROWS = 12;
const MIN_ROWS_OF_LARGE = 32;
/** A node of its own costs up to 60 us. */
const MIN_ELEMENTS = 64 * 1024;
const LARGE_ELEMENTS = 8 * 1024 * 1024;
/** Everything that is no such GEMM runs on one thread meanwhile, which with more of them was not measured. */
const MAX_THREADS = 2;
/** Some 40 ms of one thread. */
const SHORT_FLOPS = 4e9;

/** ONNX Runtime, for the graphs of a device. It is loaded with the first GEMM, some 50 ms, unless it is opened before. */
export class DenseGemms {
  readonly #numThreads: number;
  #runtime: OnnxRuntime | undefined;
  #product: FloatMatmul | undefined;
  #isOpened = false;

  private constructor(numThreads: number) {
    this.#numThreads = numThreads;
  }

  /** Undefined where it gains nothing: ggml computes all. */
  static for(numThreads: number): DenseGemms | undefined {
    return numThreads > MAX_THREADS ? undefined : new DenseGemms(numThreads);
  }

  forGraph(ggml: Ggml): GraphGemms {
    return new GraphGemms(ggml, () => this.open());
  }

  /** Undefined where there is no ONNX Runtime: ggml computes all. */
  open(): FloatMatmul | undefined {
    if (this.#isOpened) return this.#product;
    this.#isOpened = true;
    try {
      this.#runtime = new OnnxRuntime({ isVerbose: false });
      this.#product = this.#runtime.createFloatMatmul(this.#numThreads);
    } catch {
      this.#product = undefined;
    }
    return this.#product;
  }

  close(): void {
    this.#product?.close();
    this.#runtime?.close();
  }
}

/** The GEMMs of one graph: the graph's thread waits while the event loop's computes. */
export class GraphGemms {
  readonly #ggml: Ggml;
  readonly #open: () => FloatMatmul | undefined;
  readonly #work: Callback;
  /** Operands by the tensor of the result, of the graph being recorded or run. */
  readonly #due = new Map<Address, { readonly weight: CpuTensor; readonly x: CpuTensor }>();
  #numFlops = 0;
  #failure: unknown;

  constructor(ggml: Ggml, open: () => FloatMatmul | undefined) {
    this.#ggml = ggml;
    this.#open = open;
    this.#work = callback("void", ["void*", "int", "int", "void*"], (result: Address) => this.#compute(result));
  }

  get count(): number {
    return this.#due.size;
  }

  /** The graph is over so soon that the event loop may wait for it, which spares a change of threads at each GEMM. */
  get isShort(): boolean {
    return this.#numFlops <= SHORT_FLOPS;
  }

  /** Whether a GEMM is faster here. ggml's own is what remains. */
  takes(weight: CpuTensor, x: CpuTensor): boolean {
    const [numOutputs = 0, numInputs = 0] = weight.shape;
    const [numRows = 0] = x.shape;
    const numElements = numOutputs * numInputs;
    const minRows = numElements < LARGE_ELEMENTS ? MIN_ROWS : MIN_ROWS_OF_LARGE;
    if (weight.type !== "f32" || numRows < minRows || numElements < MIN_ELEMENTS) return false;
    const { base } = this.#ggml;
    return base.isContiguous(weight.handle) && base.isContiguous(x.handle) && this.#open() !== undefined;
  }

  /** Records x . weight^T as a node in `context`; the tensor of its result. */
  record(context: Address, weight: CpuTensor, x: CpuTensor): Address {
    const operands = BigUint64Array.of(x.handle, weight.handle);
    const [numRows = 0, numInputs = 0] = x.shape;
    const [numOutputs = 0] = weight.shape;
    const { base } = this.#ggml;
    const work = this.#work.address;
    const result = base.custom(context, GGML_TYPES.f32, numOutputs, numRows, 1, 1, operands, 2, work, 1, null);
    this.#due.set(result, { weight, x });
    this.#numFlops += 2 * numRows * numInputs * numOutputs;
    return result;
  }

  /** Another recording begins. */
  forget(): void {
    this.#due.clear();
    this.#numFlops = 0;
    this.#failure = undefined;
  }

  /** After a run. @throws errors of its GEMMs */
  expectDone(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  close(): void {
    this.#work.release();
  }

  /** Called by C, which no exception may reach. */
  #compute(result: Address): void {
    try {
      const due = this.#due.get(result);
      if (due === undefined) throw new Error("a graph ran a GEMM that was not recorded");
      const { weight, x } = due;
      const [numRows = 0, numInputs = 0] = x.shape;
      const [numOutputs = 0] = weight.shape;
      const sizes = { numRows, numInputs, numOutputs };
      this.#open()?.run(this.#dataOf(x.handle), this.#dataOf(weight.handle), this.#dataOf(result), sizes);
    } catch (error) {
      this.#failure ??= error;
    }
  }

  #dataOf(tensor: Address): Address {
    const address = this.#ggml.base.getData(tensor);
    if (address === null) throw new Error("a tensor of a GEMM has no memory");
    return address;
  }
}
