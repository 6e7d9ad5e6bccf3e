/**
 * Tensors as users hold them: the typed array of each datatype, and its conversion to and from the bytes of Triton's
 * binary data extension.
 */
import { type Datatype, elementSize, packBytesElements, splitBytesElements } from "@nereid/wire";

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
  readonly FP16: Uint16Array;
  readonly FP32: Float32Array;
  readonly FP64: Float64Array;
  readonly BYTES: readonly (string | Uint8Array)[];
  readonly BF16: Uint16Array;
}

/** Elements of an output tensor: the same, with BYTES undecoded. */
export interface OutputElements extends Omit<InputElements, "BYTES"> {
  readonly BYTES: readonly Uint8Array[];
}

export interface InputTensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  /** Little-endian (Triton's binary data extension). */
  readonly data: Uint8Array;
}

/** An input of a model. Keeps a view of `elements`, no copy. @throws RangeError when the shape does not fit them */
export function tensor<D extends Datatype>(
  name: string,
  datatype: D,
  shape: readonly number[],
  elements: InputElements[D],
): InputTensor {
  const count = shape.reduce((product, dim) => product * dim, 1);
  if (!shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0) || count !== elements.length) {
    throw new RangeError(`tensor '${name}': shape [${shape.join(",")}] does not hold ${elements.length} elements`);
  }
  return { name, datatype, shape, data: bytesOf(name, datatype, elements) };
}

function bytesOf(name: string, datatype: Datatype, elements: InputElements[Datatype]): Uint8Array {
  if (datatype === "BYTES") return packBytesElements(elements as InputElements["BYTES"]);
  if (!ArrayBuffer.isView(elements) || elements.BYTES_PER_ELEMENT !== elementSize(datatype)) {
    throw new RangeError(
      `tensor '${name}': ${datatype} takes a typed array with ${elementSize(datatype)} bytes an element`,
    );
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
  const source = data.byteOffset % size === 0 ? data : data.slice();
  return MAKERS[datatype](source.buffer, source.byteOffset, source.length / size);
}
