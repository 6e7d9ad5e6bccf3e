/**
 * Turns an output into its best classes, as text: `value:index[:label]` (Triton's classification extension). Shared by
 * every protocol.
 */
import { packBytesElements } from "../core/bytes-tensor.ts";
import { MAX_CLASSIFICATION_ELEMENTS } from "../core/limits.ts";
import { invalidArgument } from "../core/server-error.ts";
import { elementCount, type Tensor } from "../core/tensor.ts";

/** Text of a class of this output, undefined when it has none. */
export type LabelOf = (output: string, index: number) => string | undefined;

/**
 * The `numClasses` largest values of each batch element, best first; equal values keep the order of their index.
 * @throws ServerError for datatypes without an order, and for outputs too large to sort
 */
export function classify(output: Tensor, numClasses: number, isBatching: boolean, labelOf: LabelOf): Tensor {
  const values = readValues(output);
  const batch = isBatching ? (output.shape[0] ?? 1) : 1;
  const perBatch = batch === 0 ? 0 : values.length / batch;
  const wanted = Math.min(numClasses, perBatch);
  const entries: string[] = [];
  for (let row = 0; row < batch; row++) {
    const slice = values.slice(row * perBatch, (row + 1) * perBatch);
    for (const index of best(slice, wanted)) {
      const label = labelOf(output.name, index);
      const entry = `${classValue(slice[index] ?? 0, output.datatype)}:${index}`;
      entries.push(label === undefined ? entry : `${entry}:${label}`);
    }
  }
  const shape = isBatching ? [batch, wanted] : [wanted];
  return { name: output.name, datatype: "BYTES", shape, data: packBytesElements(entries) };
}

function readValues(output: Tensor): (number | bigint)[] {
  const read = READERS.get(output.datatype);
  if (read === undefined) {
    throw invalidArgument(`class result not available for output due to unsupported type '${output.datatype}'`);
  }
  const count = elementCount(output.shape);
  if (count > MAX_CLASSIFICATION_ELEMENTS) {
    throw invalidArgument("classification output tensor too large");
  }
  const view = new DataView(output.data.buffer, output.data.byteOffset, output.data.byteLength);
  return Array.from({ length: count }, (_, i) => read(view, i));
}

const READERS: ReadonlyMap<string, (view: DataView, i: number) => number | bigint> = new Map([
  ["UINT8", (view: DataView, i: number) => view.getUint8(i)],
  ["INT8", (view: DataView, i: number) => view.getInt8(i)],
  ["UINT16", (view: DataView, i: number) => view.getUint16(2 * i, true)],
  ["INT16", (view: DataView, i: number) => view.getInt16(2 * i, true)],
  ["UINT32", (view: DataView, i: number) => view.getUint32(4 * i, true)],
  ["INT32", (view: DataView, i: number) => view.getInt32(4 * i, true)],
  ["UINT64", (view: DataView, i: number) => view.getBigUint64(8 * i, true)],
  ["INT64", (view: DataView, i: number) => view.getBigInt64(8 * i, true)],
  ["FP32", (view: DataView, i: number) => view.getFloat32(4 * i, true)],
  ["FP64", (view: DataView, i: number) => view.getFloat64(8 * i, true)],
] as [string, (view: DataView, i: number) => number | bigint][]);

/** Indices of the largest values, in descending order; NaN comes last. */
function best(values: readonly (number | bigint)[], wanted: number): number[] {
  const order = values.map((_, index) => index);
  order.sort((a, b) => compare(values[b] ?? 0, values[a] ?? 0) || a - b);
  return order.slice(0, wanted);
}

function compare(a: number | bigint, b: number | bigint): number {
  if (a < b) return -1;
  if (a > b) return 1;
  return Number(Number.isNaN(b)) - Number(Number.isNaN(a));
}

/** As C prints it: `%f` for floats, plain for integers. */
function classValue(value: number | bigint, datatype: string): string {
  if (typeof value === "bigint" || !datatype.startsWith("FP")) return String(value);
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  return Math.abs(value) >= 1e21 ? `${BigInt(value)}.000000` : sixDecimals(value);
}

/** `toFixed` rounds a tie away from zero, C to the even digit. */
function sixDecimals(value: number): string {
  const scaled = Math.abs(value) * 1e6;
  const isTie = scaled < 2 ** 52 && scaled - Math.floor(scaled) === 0.5 && scaled / 1e6 === Math.abs(value);
  if (!isTie || Math.floor(scaled) % 2 === 1) return Object.is(value, -0) ? "-0.000000" : value.toFixed(6);
  return ((Math.sign(value) * Math.floor(scaled)) / 1e6).toFixed(6);
}
