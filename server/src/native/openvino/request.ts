/** One inference request of OpenVINO: inputs are read where they are, outputs are copied once. Makes one run at a time. */
import { byteSize, type Tensor } from "../../core/tensor.ts";
import { type Address, copyFromMemory } from "../ffi.ts";
import { type OpenvinoApi, OpenvinoError } from "./api.ts";
import { codeOf, datatypeOf, type PortInfo, typeNameOf } from "./types.ts";

/** C needs an address even for zero bytes. */
const NOTHING = new Uint8Array(16);

export class OpenvinoRequest {
  readonly #api: OpenvinoApi;
  readonly #request: Address;
  readonly #outputs: readonly PortInfo[];
  readonly #out = new BigUint64Array(1);
  readonly #code = new Int32Array(1);

  constructor(api: OpenvinoApi, request: Address, outputs: readonly PortInfo[]) {
    this.#api = api;
    this.#request = request;
    this.#outputs = outputs;
  }

  /** `inputs`: in the order of the model's. Gives all outputs. @throws OpenvinoError */
  run(inputs: readonly Tensor[]): Tensor[] {
    const bound = this.#bind(inputs);
    try {
      this.#api.calls.check(this.#api.infer(this.#request));
      return this.#collect();
    } finally {
      this.#release(bound);
    }
  }

  /** The same on another thread. Inputs belong to the run until it has settled. */
  async runAsync(inputs: readonly Tensor[]): Promise<Tensor[]> {
    const bound = this.#bind(inputs);
    try {
      await this.#api.calls.callAsync(this.#api.infer, this.#request);
      return this.#collect();
    } finally {
      this.#release(bound);
    }
  }

  close(): void {
    this.#api.requestFree(this.#request);
  }

  #bind(inputs: readonly Tensor[]): BoundInput[] {
    const bound: BoundInput[] = [];
    try {
      for (const [index, input] of inputs.entries()) {
        bound.push(this.#tensorOf(input));
        this.#api.calls.check(this.#api.setInput(this.#request, BigInt(index), bound.at(-1)?.handle ?? 0n));
      }
      return bound;
    } catch (error) {
      this.#release(bound);
      throw error;
    }
  }

  /** Frees the handles; holds the memory until then. */
  #release(bound: readonly BoundInput[]): void {
    for (const { handle, memory } of bound) if (memory.byteLength >= 0) this.#api.tensorFree(handle);
  }

  #tensorOf({ name, datatype, shape, data }: Tensor): BoundInput {
    const expected = byteSize(datatype, shape) ?? 0;
    if (data.byteLength !== expected) {
      throw new OpenvinoError(`input '${name}' has ${data.byteLength} bytes, expected ${expected}`);
    }
    const elementBytes = byteSize(datatype, []) ?? 1;
    const aligned = data.byteOffset % elementBytes === 0 ? data : Uint8Array.from(data);
    const memory = aligned.byteLength === 0 ? NOTHING : aligned;
    const dims = BigInt64Array.from(shape, BigInt);
    const native = { rank: shape.length, dims };
    this.#api.calls.check(this.#api.tensorOf(codeOf(datatype), native, memory, this.#out));
    return { handle: this.#out[0] ?? 0n, memory };
  }

  #collect(): Tensor[] {
    return this.#outputs.map(({ name }, index) => {
      this.#api.calls.check(this.#api.getOutput(this.#request, BigInt(index), this.#out));
      const handle = this.#out[0] ?? 0n;
      try {
        return this.#read(name, handle);
      } finally {
        this.#api.tensorFree(handle);
      }
    });
  }

  #read(name: string, handle: Address): Tensor {
    const { calls, tensorType, tensorShape, tensorData, shapeFree } = this.#api;
    calls.check(tensorType(handle, this.#code));
    const code = this.#code[0] ?? 0;
    const datatype = datatypeOf(code);
    if (datatype === undefined) throw new OpenvinoError(`output '${name}' has element type ${typeNameOf(code)}`);
    const native = new BigInt64Array(2);
    calls.check(tensorShape(handle, native));
    const dims = new BigInt64Array(Number(native[0]));
    copyFromMemory(new Uint8Array(dims.buffer), native[1] ?? 0n);
    calls.check(shapeFree(native));
    const shape = Array.from(dims, Number);
    calls.check(tensorData(handle, this.#out));
    const data = Buffer.allocUnsafe(byteSize(datatype, shape) ?? 0);
    copyFromMemory(data, this.#out[0] ?? 0n);
    return { name, datatype, shape, data };
  }
}

interface BoundInput {
  readonly handle: Address;
  /** The memory that the handle refers to. */
  readonly memory: Uint8Array;
}
