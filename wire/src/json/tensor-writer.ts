/**
 * Writes tensor elements as JSON (KServe V2, Open Inference Protocol, "Tensor Data"), in slices when there are many.
 */
import type { JsonDatatype } from "./tensor-reader.ts";
import type { JsonWriter } from "./writer.ts";

/** Elements between two pauses. */
const ELEMENTS_PER_SLICE = 16_384;
const COMMA = 0x2c;
/** A float with all its digits and its comma: reserved at once for large tensors. */
const FLOAT_CHARACTERS = 21;

/**
 * Writes `count` elements separated by commas, without brackets. `data` is little-endian and may be unaligned.
 * For BYTES all elements are written, whatever `count` is; `checkBytesElements()` must have accepted them.
 */
export function* writeTensorData(
  writer: JsonWriter,
  datatype: JsonDatatype,
  data: Uint8Array,
  count: number,
): Generator<undefined, void> {
  if (datatype === "BYTES") {
    yield* writeStrings(writer, data);
    return;
  }
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  if (count > ELEMENTS_PER_SLICE) writer.ensure(count * FLOAT_CHARACTERS);
  for (let from = 0; from < count; from += ELEMENTS_PER_SLICE) {
    if (from > 0) yield undefined;
    writeNumbers(writer, datatype, view, from, Math.min(from + ELEMENTS_PER_SLICE, count));
  }
}

/** As `writeTensorData`, in one go: for tensors that are known to be small. */
export function writeSmallTensorData(
  writer: JsonWriter,
  datatype: JsonDatatype,
  data: Uint8Array,
  count: number,
): void {
  if (datatype === "BYTES") writeSmallStrings(writer, data);
  else if (datatype === "INT32" && count === 1) writer.integer(readLength(data, 0) | 0);
  else writeNumbers(writer, datatype, new DataView(data.buffer, data.byteOffset, data.byteLength), 0, count);
}

function writeSmallStrings(writer: JsonWriter, data: Uint8Array): void {
  for (let at = 0; at + 4 <= data.length; ) {
    if (at > 0) writer.byte(COMMA);
    const end = Math.min(at + 4 + readLength(data, at), data.length);
    writer.stringBytes(data, at + 4, end);
    at = end;
  }
}

function* writeStrings(writer: JsonWriter, data: Uint8Array): Generator<undefined, void> {
  let budget = ELEMENTS_PER_SLICE;
  let at = 0;
  while (at + 4 <= data.length) {
    if (at > 0) writer.byte(COMMA);
    const end = Math.min(at + 4 + readLength(data, at), data.length);
    writer.stringBytes(data, at + 4, end);
    at = end;
    if (--budget === 0) {
      budget = ELEMENTS_PER_SLICE;
      yield undefined;
    }
  }
}

function readLength(data: Uint8Array, at: number): number {
  const low = (data[at] ?? 0) | ((data[at + 1] ?? 0) << 8) | ((data[at + 2] ?? 0) << 16);
  return (low | ((data[at + 3] ?? 0) << 24)) >>> 0;
}

type NumberDatatype = Exclude<JsonDatatype, "BYTES">;

function writeNumbers(writer: JsonWriter, datatype: NumberDatatype, view: DataView, from: number, to: number): void {
  if (datatype === "FP32") {
    writer.floats(view, from, to);
    return;
  }
  for (let i = from; i < to; i++) {
    if (i > 0) writer.byte(COMMA);
    writeNumber(writer, datatype, view, i);
  }
}

function writeNumber(writer: JsonWriter, datatype: NumberDatatype, view: DataView, i: number): void {
  switch (datatype) {
    case "BOOL":
      writer.raw(view.getUint8(i) === 0 ? "false" : "true");
      break;
    case "UINT8":
      writer.integer(view.getUint8(i));
      break;
    case "INT8":
      writer.integer(view.getInt8(i));
      break;
    case "UINT16":
      writer.integer(view.getUint16(2 * i, true));
      break;
    case "INT16":
      writer.integer(view.getInt16(2 * i, true));
      break;
    case "UINT32":
      writer.integer(view.getUint32(4 * i, true));
      break;
    case "INT32":
      writer.integer(view.getInt32(4 * i, true));
      break;
    case "UINT64":
      writer.integer64(view.getUint32(8 * i, true), view.getUint32(8 * i + 4, true), true);
      break;
    case "INT64":
      writer.integer64(view.getUint32(8 * i, true), view.getUint32(8 * i + 4, true), false);
      break;
    case "FP32":
      writer.double(view.getFloat32(4 * i, true));
      break;
    case "FP64":
      writer.double(view.getFloat64(8 * i, true));
      break;
  }
}
