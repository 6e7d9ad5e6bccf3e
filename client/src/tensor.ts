/**
 * Tensors as users hold them: the typed array of each datatype, and its conversion to and from the bytes of Triton's
 * binary data extension; or the place of the bytes in shared memory (Triton's shared memory extension).
 */
import { type Datatype, elementSize, packBytesElements, splitBytesElements } from "@nereid/wire";

/** ES2025's Float16Array, for compilers whose library lacks it. */
export interface Float16View extends ArrayBufferView {
  readonly length: number;
  readonly BYTES_PER_ELEMENT: number;
  readonly [Symbol.toStringTag]: "Float16Array";
}

/** Elements of an input tensor. FP16 and BF16 are 16-bit patterns, BOOL a byte of 0 or 1. Strings become UTF-8. */
export interface InputElements {
  readonly BOOL: Uint8Array;
  readonly UINT8: Uint8Array;
  readonly UINT16: Uint16Array;
  readonly UINT32: Uint32Array;
  readonly UINT64: BigUint64Array;
  readonly INT8: Int8Array;
  readonly INT16: Int16Array;
  readonly INT32: Int32Array;
  readonly INT64: BigInt64Array;
  readonly FP16: Uint16Array | Float16View;
  readonly FP32: Float32Array;
  readonly FP64: Float64Array;
  readonly BYTES: readonly (string | Uint8Array)[];
  readonly BF16: Uint16Array;
}

/** Elements of an output tensor: the same, with BYTES undecoded and FP16 as patterns. */
export interface OutputElements extends Omit<InputElements, "BYTES" | "FP16"> {
  readonly BYTES: readonly Uint8Array[];
  readonly FP16: Uint16Array;
}

/** A part of a registered region of shared memory. */
export interface RegionPart {
  /** Name under which the region is registered. */
  readonly region: string;
  readonly byteSize: number;
  readonly offset?: number | undefined;
}

/** Datatype, shape and elements of an input without its name. */
export interface TensorValue<D extends Datatype = Datatype, S extends readonly number[] = readonly number[]> {
  readonly datatype: D;
  readonly shape: S;
  /** Little-endian (Triton's binary data extension). Empty when the elements are in shared memory. */
  readonly data: Uint8Array;
  readonly memory?: RegionPart | undefined;
}

export interface InputTensor<
  N extends string = string,
  D extends Datatype = Datatype,
  S extends readonly number[] = readonly number[],
> extends TensorValue<D, S> {
  readonly name: N;
}

/** An input of a model. Keeps a view of `elements`, no copy. @throws RangeError when the shape does not fit them */
export function tensor<const N extends string, D extends Datatype, const S extends readonly number[]>(
  name: N,
  datatype: D,
  shape: S,
  elements: InputElements[D] | RegionPart,
): InputTensor<N, D, S> {
  return { name, ...valueFor(`tensor '${name}'`, datatype, shape, elements) };
}

/** An input without its name, for inputs given as an object. @throws RangeError when the shape does not fit the elements */
export function tensorValue<D extends Datatype, const S extends readonly number[]>(
  datatype: D,
  shape: S,
  elements: InputElements[D] | RegionPart,
): TensorValue<D, S> {
  return valueFor("tensor", datatype, shape, elements);
}

function valueFor<D extends Datatype, S extends readonly number[]>(
  where: string,
  datatype: D,
  shape: S,
  elements: InputElements[D] | RegionPart,
): TensorValue<D, S> {
  if (isRegionPart(elements)) return { datatype, shape, data: new Uint8Array(0), memory: elements };
  let count = 1;
  let isShape = true;
  for (const dim of shape) {
    count *= dim;
    isShape &&= Number.isSafeInteger(dim) && dim >= 0;
  }
  if (!isShape || count !== elements.length) {
    throw new RangeError(`${where}: shape [${shape.join(",")}] does not hold ${elements.length} elements`);
  }
  return { datatype, shape, data: bytesOf(where, datatype, elements) };
}

function isRegionPart(elements: InputElements[Datatype] | RegionPart): elements is RegionPart {
  return "region" in elements;
}

/** The bytes of elements as a tensor has them: a view where elements have one size. @throws RangeError */
export function bytesOf(where: string, datatype: Datatype, elements: InputElements[Datatype]): Uint8Array {
  if (datatype === "BYTES") return packBytesElements(elements as InputElements["BYTES"]);
  if (!ArrayBuffer.isView(elements) || elements.BYTES_PER_ELEMENT !== elementSize(datatype)) {
    throw new RangeError(`${where}: ${datatype} takes a typed array with ${elementSize(datatype)} bytes an element`);
  }
  return new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength);
}

type TypedArrayMaker = (buffer: ArrayBufferLike, offset: number, length: number) => OutputElements[Datatype];

const MAKERS: Readonly<Record<Exclude<Datatype, "BYTES">, TypedArrayMaker>> = {
  BOOL: (buffer, offset, length) => new Uint8Array(buffer, offset, length),
  UINT8: (buffer, offset, length) => new Uint8Array(buffer, offset, length),
  UINT16: (buffer, offset, length) => new Uint16Array(buffer, offset, length),
  UINT32: (buffer, offset, length) => new Uint32Array(buffer, offset, length),
  UINT64: (buffer, offset, length) => new BigUint64Array(buffer, offset, length),
  INT8: (buffer, offset, length) => new Int8Array(buffer, offset, length),
  INT16: (buffer, offset, length) => new Int16Array(buffer, offset, length),
  INT32: (buffer, offset, length) => new Int32Array(buffer, offset, length),
  INT64: (buffer, offset, length) => new BigInt64Array(buffer, offset, length),
  FP16: (buffer, offset, length) => new Uint16Array(buffer, offset, length),
  FP32: (buffer, offset, length) => new Float32Array(buffer, offset, length),
  FP64: (buffer, offset, length) => new Float64Array(buffer, offset, length),
  BF16: (buffer, offset, length) => new Uint16Array(buffer, offset, length),
};

/** The elements in `data`, whose size was checked: a view if it is aligned, else a copy. */
export function elementsOf(datatype: Datatype, data: Uint8Array): OutputElements[Datatype] {
  if (datatype === "BYTES") return splitBytesElements(data);
  const size = elementSize(datatype);
  const source = data.byteOffset % size === 0 ? data : new Uint8Array(data); // `slice()` of a Buffer copies nothing
  return MAKERS[datatype](source.buffer, source.byteOffset, source.length / size);
}
