/**
 * Records one forward pass as a ggml graph and runs it. The ops in kernels/ do the recording; this file gives them
 * memory for their results, carries data in and out, and knows none of them.
 */
import type { Address } from "../../native/ffi.ts";
import { expectAddress, GGML_TYPES, type Ggml } from "../../native/ggml/ggml.ts";
import type { CpuDevice } from "./cpu-device.ts";
import { byteSize, type CpuTensor, type CpuType, expectWholeBlocks } from "./cpu-tensor.ts";
import type { GraphGemms } from "./dense-gemm.ts";

type InputData = Int32Array | Float32Array | Uint16Array | Uint8Array;

export class CpuGraph {
  /** Sees each product with a weight as it is recorded, and may mark what is multiplied as an output. */
  onGemm: ((weight: CpuTensor, x: CpuTensor) => void) | undefined = undefined;
  readonly ggml: Ggml;
  readonly #device: CpuDevice;
  /** Places results in memory and lets those that are done share it. */
  readonly #allocator: Address;
  /** Undefined: ggml computes all products. */
  readonly #products: GraphGemms | undefined;
  #context: Address | undefined;
  #graph: Address = 0n;
  #maxTensors = 0;
  #numTensors = 0;
  #isClosed = false;
  #inputs: { readonly tensor: CpuTensor; readonly data: InputData }[] = [];

  constructor(device: CpuDevice) {
    this.#device = device;
    this.ggml = device.ggml;
    this.#products = device.denseGemms?.forGraph(device.ggml);
    this.#allocator = expectAddress(this.ggml.base.allocatorNew(device.bufferType), "a graph allocator");
  }

  /** Ops then record what computes a row by itself. */
  get isDeterministic(): boolean {
    return this.#device.isDeterministic;
  }

  /** x . weight^T, by whatever computes it fastest. Shapes have been checked. */
  recordGemm(weight: CpuTensor, x: CpuTensor): Address {
    if (this.#products?.takes(weight, x) === true) return this.#products.record(this.claim(), weight, x);
    return this.ggml.base.mulMat(this.claim(), weight.handle, x.handle);
  }

  /** Forgets the last recording and starts one of at most `maxTensors` tensors, inputs included. */
  begin(maxTensors: number): void {
    const { base } = this.ggml;
    if (this.#context === undefined || maxTensors > this.#maxTensors) this.#grow(maxTensors);
    else base.reset(this.#context);
    this.#graph = base.newGraph(this.#contextAddress(), this.#maxTensors, false);
    this.#numTensors = 0;
    this.#inputs = [];
    this.#products?.forget();
  }

  /** Reserves room for one tensor; call before every ggml function that makes one. ggml aborts when there is none. */
  claim(): Address {
    if (this.#numTensors >= this.#maxTensors) throw new Error(`a graph outgrew its ${this.#maxTensors} tensors`);
    this.#numTensors++;
    return this.#contextAddress();
  }

  /** Data that enters the graph; copied in when it runs. */
  input(type: CpuType, shape: readonly [number] | readonly [number, number], data: InputData): CpuTensor {
    const tensor = this.empty(type, shape);
    if (data.byteLength !== byteSize(tensor)) {
      throw new Error(`graph input: expected ${byteSize(tensor)} bytes, got ${data.byteLength}`);
    }
    this.#inputs.push({ tensor, data });
    return tensor;
  }

  /** Memory that nodes of the graph write through views. */
  empty(type: CpuType, shape: readonly [number] | readonly [number, number]): CpuTensor {
    const { base } = this.ggml;
    const [outer, inner] = shape;
    expectWholeBlocks(type, shape);
    const handle =
      inner === undefined
        ? base.newTensor1d(this.claim(), GGML_TYPES[type], outer)
        : base.newTensor2d(this.claim(), GGML_TYPES[type], inner, outer);
    base.setInput(handle);
    return { handle, type, shape };
  }

  /** Appends a node and what it needs. Nodes run in this order, which orders writes to caches before their reads. */
  expand(tensor: Address): void {
    this.ggml.base.expand(this.#graph, tensor);
  }

  /** Marks a tensor whose data is read after the run. */
  output(tensor: CpuTensor): void {
    this.ggml.base.setOutput(tensor.handle);
    this.expand(tensor.handle);
  }

  /**
   * Places the tensors, copies the inputs in and runs the graph, which is over `numRows` rows: graphs of like size take like
   * times. Recordings without a node do nothing.
   */
  async run(numRows = 1): Promise<void> {
    const { base } = this.ggml;
    if (base.numNodes(this.#graph) === 0) return;
    if (!base.allocateGraph(this.#allocator, this.#graph)) throw new Error("a graph got no memory for its results");
    for (const { tensor, data } of this.#inputs) {
      if (base.getData(tensor.handle) === null) throw new Error("an input of the graph is used by no node");
      base.tensorSet(tensor.handle, data, 0, data.byteLength);
    }
    await this.#device.compute(this.#graph, numRows, this.#products);
  }

  /** Copies an output out; valid after `run` and before the next `begin`. */
  read(tensor: CpuTensor, into: Float32Array): void {
    if (into.byteLength !== byteSize(tensor)) {
      throw new Error(`graph output: expected room for ${byteSize(tensor)} bytes, got ${into.byteLength}`);
    }
    this.ggml.base.tensorGet(tensor.handle, into, 0, into.byteLength);
  }

  /** Not while a run is in flight. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#context !== undefined) this.ggml.base.free(this.#context);
    this.#context = undefined;
    this.ggml.base.allocatorFree(this.#allocator);
    this.#products?.close();
  }

  #grow(maxTensors: number): void {
    const { base } = this.ggml;
    if (this.#context !== undefined) base.free(this.#context);
    this.#context = undefined;
    this.#maxTensors = 2 ** Math.ceil(Math.log2(Math.max(maxTensors, 64)));
    const bytes = this.#maxTensors * base.tensorOverhead() + base.graphOverhead(this.#maxTensors, false);
    this.#context = expectAddress(base.init({ mem_size: bytes, mem_buffer: null, no_alloc: true }), "a context");
  }

  #contextAddress(): Address {
    if (this.#context === undefined) throw new Error("begin() comes before recording");
    return this.#context;
  }
}
