/**
 * The memory of one run: tensor handles, C arrays, and references to every buffer whose address C holds. A frame is
 * reused, for one run at a time. Knows no session.
 */
import { byteSize, elementCount, type Tensor } from "../../core/tensor.ts";
import { type Address, addressOf, copyFromMemory, cString } from "../ffi.ts";
import type { OrtApi } from "./api.ts";
import { MAX_SMALL_BYTES, SmallValue } from "./small-value.ts";
import { check } from "./status.ts";
import { fromContent, toCStrings } from "./strings.ts";
import { elementTypeOf, elementTypeOfCode } from "./types.ts";

/** A requested output. `into`, when given, receives it: its shape must be the one that the model gives. */
export interface OutputRequest {
  readonly name: string;
  readonly into?: Tensor | undefined;
}

/** State shared by all frames of a process. */
export interface FrameContext {
  readonly api: OrtApi;
  readonly cpuMemory: Address;
  readonly allocator: Address;
}

const POINTER_BYTES = 8n;
/** Dimensions that fit without a further allocation. */
const USUAL_RANK = 16;
/** C needs a non-null address even for zero bytes. */
const NOTHING: Uint8Array = Buffer.alloc(16);

export class RunFrame {
  readonly runOptions: Address;
  readonly #context: FrameContext;
  readonly #nameAddresses: ReadonlyMap<string, Address>;
  readonly #out = new BigUint64Array(1);
  readonly #outInt: Int32Array = new Int32Array(this.#out.buffer);
  #shape = new BigInt64Array(USUAL_RANK);
  #outputs: readonly OutputRequest[] = [];
  /** Buffers whose addresses C holds during the run. */
  #held: Uint8Array[] = [];
  inputNames: BigUint64Array = new BigUint64Array(0);
  inputValues: BigUint64Array = new BigUint64Array(0);
  outputNames: BigUint64Array = new BigUint64Array(0);
  outputValues: BigUint64Array = new BigUint64Array(0);
  /** By index; sparse for tensors that were never small. */
  readonly #smallInputs: (SmallValue | undefined)[] = [];
  readonly #smallOutputs: (SmallValue | undefined)[] = [];
  #inputSlots: Address = 0n;
  #outputSlots: Address = 0n;
  inputCount = 0;
  outputCount = 0;
  #isTerminated = false;

  /** `nameAddresses`: of all inputs and outputs of the session; they outlive the frame. */
  constructor(
    context: FrameContext,
    nameAddresses: ReadonlyMap<string, Address>,
    runConfig: ReadonlyMap<string, string>,
  ) {
    this.#context = context;
    this.#nameAddresses = nameAddresses;
    this.runOptions = createRunOptions(context.api, runConfig);
  }

  /** Creates the tensors. Frees everything when it throws. */
  prepare(inputs: readonly Tensor[], outputs: readonly OutputRequest[]): void {
    this.#reserve(inputs.length, outputs.length);
    this.#outputs = outputs;
    try {
      for (const tensor of inputs) {
        const index = this.inputCount;
        this.inputNames[index] = this.#nameAddress(tensor.name);
        if (isSmall(tensor)) {
          this.#useSmall(tensor, this.inputValues, this.#inputSlots, index, this.#smallInputs).write(tensor.data);
        } else this.#createTensor(tensor, this.inputValues, this.#inputSlots, index);
        this.inputCount++;
      }
      for (const { name, into } of outputs) {
        const index = this.outputCount;
        this.outputNames[index] = this.#nameAddress(name);
        this.outputValues[index] = 0n;
        if (into !== undefined) this.#createOutput(into, index);
        this.outputCount++;
      }
    } catch (error) {
      this.clear();
      throw error;
    }
  }

  /** Takes the outputs after a successful run. */
  collect(): Tensor[] {
    return this.#outputs.map(({ name, into }, index) => {
      const value = this.outputValues[index] ?? 0n;
      if (into === undefined) return this.#readTensor(name, value);
      const small = this.#smallOutputs[index];
      if (small?.handle === value) small.read(into.data);
      return into;
    });
  }

  /** Terminates the run that uses this frame, also from another thread. */
  terminate(): void {
    this.#isTerminated = true;
    check(this.#context.api, this.#context.api.RunOptionsSetTerminate(this.runOptions));
  }

  /** Frees everything that `prepare()` and the run created. */
  clear(): void {
    const { api } = this.#context;
    if (this.#isTerminated) check(api, api.RunOptionsUnsetTerminate(this.runOptions));
    this.#isTerminated = false;
    for (let index = 0; index < this.inputCount; index++) {
      const value = this.inputValues[index] ?? 0n;
      if (value !== this.#smallInputs[index]?.handle) api.ReleaseValue(value);
    }
    for (let index = 0; index < this.outputCount; index++) {
      const value = this.outputValues[index] ?? 0n;
      if (value !== 0n && value !== this.#smallOutputs[index]?.handle) api.ReleaseValue(value);
    }
    this.inputCount = 0;
    this.outputCount = 0;
    this.#outputs = [];
    this.#held = [];
  }

  close(): void {
    for (const small of [...this.#smallInputs, ...this.#smallOutputs]) {
      if (small !== undefined && small.handle !== 0n) this.#context.api.ReleaseValue(small.handle);
    }
    this.#context.api.ReleaseRunOptions(this.runOptions);
  }

  #reserve(inputs: number, outputs: number): void {
    if (this.inputNames.length < inputs) {
      this.inputNames = new BigUint64Array(inputs);
      this.inputValues = new BigUint64Array(inputs);
      this.#inputSlots = addressOf(this.inputValues);
    }
    if (this.outputNames.length < outputs) {
      this.outputNames = new BigUint64Array(outputs);
      this.outputValues = new BigUint64Array(outputs);
      this.#outputSlots = addressOf(this.outputValues);
    }
  }

  #nameAddress(name: string): Address {
    const address = this.#nameAddresses.get(name);
    if (address === undefined) throw new RangeError(`the model has no tensor '${name}'`);
    return address;
  }

  #createOutput(into: Tensor, index: number): void {
    if (isSmall(into)) this.#useSmall(into, this.outputValues, this.#outputSlots, index, this.#smallOutputs);
    else this.#createTensor(into, this.outputValues, this.#outputSlots, index);
  }

  /** Puts the persistent tensor of this position into `values[index]`, recreated when type or shape changed. */
  #useSmall(
    tensor: Tensor,
    values: BigUint64Array,
    slots: Address,
    index: number,
    smalls: (SmallValue | undefined)[],
  ): SmallValue {
    let small = smalls[index];
    if (small === undefined) {
      small = new SmallValue();
      smalls[index] = small;
    }
    if (!small.fits(tensor)) {
      if (small.handle !== 0n) this.#context.api.ReleaseValue(small.handle);
      small.handle = 0n;
      this.#writeShape(tensor.shape);
      this.#createOn(small.memory, tensor, slots + BigInt(index) * POINTER_BYTES);
      small.made(values[index] ?? 0n, tensor);
    } else if (tensor.data.byteLength !== byteSize(tensor.datatype, tensor.shape)) {
      throw wrongSize(tensor, byteSize(tensor.datatype, tensor.shape) ?? 0);
    }
    values[index] = small.handle;
    return small;
  }

  /** Creates the tensor; C writes its handle into `values[index]`. */
  #createTensor(tensor: Tensor, values: BigUint64Array, slots: Address, index: number): void {
    this.#writeShape(tensor.shape);
    const slot = slots + BigInt(index) * POINTER_BYTES;
    if (tensor.datatype === "BYTES") this.#createStringTensor(tensor, values, slot, index);
    else this.#createDataTensor(tensor, slot);
  }

  #createDataTensor(tensor: Tensor, slot: Address): void {
    const held = usableData(tensor.data, elementTypeOf(tensor.datatype).byteLength);
    this.#held.push(held);
    this.#createOn(held, tensor, slot);
  }

  /** The shape must have been written. */
  #createOn(memory: Uint8Array, tensor: Tensor, slot: Address): void {
    const { api, cpuMemory } = this.#context;
    const { datatype, shape, data } = tensor;
    const { code } = elementTypeOf(datatype);
    const expected = byteSize(datatype, shape) ?? 0;
    if (data.byteLength !== expected) throw wrongSize(tensor, expected);
    check(api, api.CreateTensorWithDataAsOrtValue(cpuMemory, memory, expected, this.#shape, shape.length, code, slot));
  }

  #createStringTensor(tensor: Tensor, values: BigUint64Array, slot: Address, index: number): void {
    const { api, allocator } = this.#context;
    const { content, pointers } = toCStrings(tensor.data, elementCount(tensor.shape));
    this.#held.push(content);
    const { code } = elementTypeOf("BYTES");
    check(api, api.CreateTensorAsOrtValue(allocator, this.#shape, tensor.shape.length, code, slot));
    if (pointers.length === 0) return;
    const value = values[index] ?? 0n;
    const status = api.FillStringTensor(value, pointers, pointers.length);
    if (status !== null) api.ReleaseValue(value);
    check(api, status);
  }

  #writeShape(shape: readonly number[]): void {
    if (shape.length > this.#shape.length) this.#shape = new BigInt64Array(shape.length);
    for (let axis = 0; axis < shape.length; axis++) this.#shape[axis] = BigInt(shape[axis] ?? 0);
  }

  #readTensor(name: string, value: Address): Tensor {
    const { api } = this.#context;
    check(api, api.GetTensorTypeAndShape(value, this.#out));
    const info = this.#out[0] ?? 0n;
    try {
      check(api, api.GetTensorElementType(info, this.#out));
      const { name: typeName, datatype } = elementTypeOfCode(this.#outInt[0] ?? 0);
      if (datatype === undefined) throw new RangeError(`output '${name}' has element type ${typeName}`);
      const shape = this.#readShape(info);
      const data = datatype === "BYTES" ? this.#readStrings(value, shape) : this.#readData(value, datatype, shape);
      return { name, datatype, shape, data };
    } finally {
      api.ReleaseTensorTypeAndShapeInfo(info);
    }
  }

  #readShape(info: Address): number[] {
    const { api } = this.#context;
    check(api, api.GetDimensionsCount(info, this.#out));
    const rank = Number(this.#out[0]);
    if (rank > this.#shape.length) this.#shape = new BigInt64Array(rank);
    if (rank > 0) check(api, api.GetDimensions(info, this.#shape, rank));
    const shape: number[] = [];
    for (let axis = 0; axis < rank; axis++) shape.push(Number(this.#shape[axis]));
    return shape;
  }

  #readData(value: Address, datatype: Tensor["datatype"], shape: readonly number[]): Uint8Array {
    const { api } = this.#context;
    const data = uninitialized(byteSize(datatype, shape) ?? 0);
    if (data.byteLength > 0) {
      check(api, api.GetTensorMutableData(value, this.#out));
      copyFromMemory(data, this.#out[0] ?? 0n);
    }
    return data;
  }

  #readStrings(value: Address, shape: readonly number[]): Uint8Array {
    const { api } = this.#context;
    const count = elementCount(shape);
    if (count === 0) return new Uint8Array(0);
    check(api, api.GetStringTensorDataLength(value, this.#out));
    const byteLength = Number(this.#out[0]);
    const content = Buffer.allocUnsafe(Math.max(byteLength, 1));
    const offsets = new BigUint64Array(count);
    check(api, api.GetStringTensorContent(value, content, byteLength, offsets, count));
    return fromContent(content.subarray(0, byteLength), offsets);
  }
}

function isSmall({ datatype, data }: Tensor): boolean {
  return data.byteLength <= MAX_SMALL_BYTES && data.byteLength > 0 && datatype !== "BYTES";
}

function wrongSize({ name, data }: Tensor, expected: number): RangeError {
  return new RangeError(`tensor '${name}' has ${data.byteLength} bytes, expected ${expected}`);
}

/** Memory for an output: small ones come from Node's pool. Not zeroed, because every byte is written. */
export function uninitialized(byteLength: number): Uint8Array {
  return Buffer.allocUnsafe(byteLength);
}

/** The bytes themselves when aligned for their type, else an aligned copy. */
function usableData(data: Uint8Array, elementBytes: number): Uint8Array {
  if (data.byteLength === 0) return NOTHING;
  return data.byteOffset % elementBytes === 0 ? data : new Uint8Array(data);
}

function createRunOptions(api: OrtApi, config: ReadonlyMap<string, string>): Address {
  const out = new BigUint64Array(1);
  check(api, api.CreateRunOptions(out));
  const runOptions = out[0] ?? 0n;
  for (const [key, value] of config) check(api, api.AddRunConfigEntry(runOptions, cString(key), cString(value)));
  return runOptions;
}
