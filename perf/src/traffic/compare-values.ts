/** Differences between two JSON values or two tensors, with tolerances for numbers. Pure. */
import { bf16ToNumber } from "@nereid/server/core/bf16";
import { fp16ToNumber } from "@nereid/server/core/fp16";
import { elementSize, type FixedDatatype, splitBytesElements } from "@nereid/wire";

export interface Tolerance {
  readonly relative: number;
  readonly absolute: number;
}

export interface Difference {
  /** Path to the value: "outputs.logits[3]". */
  readonly at: string;
  readonly expected: string;
  readonly got: string;
  /** The largest absolute difference of numbers under this path. */
  readonly absolute?: number;
}

export interface TensorValue {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

const SHOWN_CHARS = 60;

/** `|expected - got| <= absolute + relative * |expected|`, as numpy's allclose. Not-a-number equals itself. */
export function isNear(expected: number, got: number, { relative, absolute }: Tolerance): boolean {
  if (Object.is(expected, got) || expected === got) return true;
  return Math.abs(expected - got) <= absolute + relative * Math.abs(expected);
}

/** `ignored`: names of members that may differ, anywhere. */
export function compareJson(
  expected: unknown,
  got: unknown,
  tolerance: Tolerance,
  ignored: ReadonlySet<string>,
  at = "",
): readonly Difference[] {
  if (typeof expected === "number" && typeof got === "number") {
    if (isNear(expected, got, tolerance)) return [];
    return [{ at, expected: String(expected), got: String(got), absolute: Math.abs(expected - got) }];
  }
  if (typeof expected === "string" && typeof got === "string") return compareText(expected, got, at);
  if (Array.isArray(expected) && Array.isArray(got)) {
    if (expected.length !== got.length)
      return [{ at: `${at}.length`, expected: String(expected.length), got: String(got.length) }];
    return expected.flatMap((each: unknown, k) => compareJson(each, got[k], tolerance, ignored, `${at}[${k}]`));
  }
  if (isObject(expected) && isObject(got)) {
    const names = [...new Set([...Object.keys(expected), ...Object.keys(got)])].filter((name) => !ignored.has(name));
    return names.flatMap((name) =>
      compareJson(expected[name], got[name], tolerance, ignored, at === "" ? name : `${at}.${name}`),
    );
  }
  return expected === got ? [] : [{ at, expected: shown(expected), got: shown(got) }];
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The first place where texts differ, with what stands around it. */
export function compareText(expected: string, got: string, at: string): readonly Difference[] {
  if (expected === got) return [];
  let place = 0;
  while (place < expected.length && expected[place] === got[place]) place += 1;
  const start = Math.max(0, place - SHOWN_CHARS / 3);
  const cut = (text: string): string => JSON.stringify(text.slice(start, start + SHOWN_CHARS));
  return [{ at: `${at}, character ${place}`, expected: cut(expected), got: cut(got) }];
}

export function compareTensors(
  expected: readonly TensorValue[],
  got: readonly TensorValue[],
  tolerance: Tolerance,
): readonly Difference[] {
  const names = [...new Set([...expected, ...got].map(({ name }) => name))];
  return names.flatMap((name) => {
    const [one, other] = [expected, got].map((list) => list.find((tensor) => tensor.name === name));
    const at = `outputs.${name}`;
    if (one === undefined || other === undefined)
      return [
        { at, expected: one === undefined ? "absent" : "present", got: other === undefined ? "absent" : "present" },
      ];
    const forms = [one, other].map(({ datatype, shape }) => `${datatype}[${shape.join(",")}]`);
    if (forms[0] !== forms[1]) return [{ at, expected: forms[0] ?? "", got: forms[1] ?? "" }];
    return one.datatype === "BYTES" ? compareElements(one, other, at) : compareNumbers(one, other, tolerance, at);
  });
}

function compareElements(expected: TensorValue, got: TensorValue, at: string): readonly Difference[] {
  const texts = [expected, got].map(({ data }) =>
    splitBytesElements(data).map((element) => Buffer.from(element).toString()),
  );
  const [ours = [], theirs = []] = texts;
  return ours.flatMap((text, k) => compareText(text, theirs[k] ?? "", `${at}[${k}]`));
}

/** One difference for the tensor: its first element that differs, how many do, and by how much at most. */
function compareNumbers(
  expected: TensorValue,
  got: TensorValue,
  tolerance: Tolerance,
  at: string,
): readonly Difference[] {
  if (Buffer.compare(expected.data, got.data) === 0) return [];
  const [ours, theirs] = [numbersOf(expected), numbersOf(got)];
  if (ours.length !== theirs.length)
    return [{ at: `${at}.length`, expected: String(ours.length), got: String(theirs.length) }];
  const differing = ours.map((_, k) => k).filter((k) => !isNear(ours[k] ?? 0, theirs[k] ?? 0, tolerance));
  const [first] = differing;
  if (first === undefined) return [];
  const absolute = Math.max(...differing.map((k) => Math.abs((ours[k] ?? 0) - (theirs[k] ?? 0))));
  const more = differing.length === 1 ? "" : ` (${differing.length} of ${ours.length} differ)`;
  return [{ at: `${at}[${first}]${more}`, expected: String(ours[first]), got: String(theirs[first]), absolute }];
}

type ReadElement = (view: DataView, at: number) => number;

const READERS: Readonly<Record<FixedDatatype, ReadElement>> = {
  BOOL: (view, at) => view.getUint8(at),
  UINT8: (view, at) => view.getUint8(at),
  UINT16: (view, at) => view.getUint16(at, true),
  UINT32: (view, at) => view.getUint32(at, true),
  UINT64: (view, at) => Number(view.getBigUint64(at, true)),
  INT8: (view, at) => view.getInt8(at),
  INT16: (view, at) => view.getInt16(at, true),
  INT32: (view, at) => view.getInt32(at, true),
  INT64: (view, at) => Number(view.getBigInt64(at, true)),
  FP16: (view, at) => fp16ToNumber(view.getUint16(at, true)),
  BF16: (view, at) => bf16ToNumber(view.getUint16(at, true)),
  FP32: (view, at) => view.getFloat32(at, true),
  FP64: (view, at) => view.getFloat64(at, true),
};

function numbersOf({ datatype, data }: TensorValue): readonly number[] {
  const read = READERS[datatype as FixedDatatype];
  const size = elementSize(datatype as FixedDatatype);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  return Array.from({ length: Math.floor(data.byteLength / size) }, (_, k) => read(view, k * size));
}

function shown(value: unknown): string {
  return value === undefined ? "absent" : (JSON.stringify(value) ?? String(value)).slice(0, SHOWN_CHARS);
}
