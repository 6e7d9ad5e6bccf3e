/** From what a person types to a tensor in JSON. Pure. Source: KServe V2, HTTP/REST, "Tensor Data". */
import type { ConsoleTensor } from "@nereid/server/protocol/console/console-types";
import type { TensorInput } from "./snippets.ts";

export interface TensorDraft {
  readonly name: string;
  readonly datatype: string;
  /** Sizes apart from each other by commas. */
  readonly shape: string;
  /** Values apart from each other by commas or spaces; a line each for BYTES; or JSON. */
  readonly values: string;
  readonly isOptional: boolean;
  /** Contents of a file instead of values, one element. */
  readonly file?: { readonly name: string; readonly bytes: Uint8Array };
}

const INTEGER = /^[+-]?\d+$/;
const MAX_EXAMPLE_ELEMENTS = 16;

/** Unknown sizes are 1. */
export function draftOf({ name, datatype, shape, isOptional }: ConsoleTensor): TensorDraft {
  const sizes = shape.map((size) => Math.max(1, size));
  const count = Math.min(MAX_EXAMPLE_ELEMENTS, countOf(sizes));
  const example = datatype === "BYTES" ? "text" : datatype === "BOOL" ? "true" : "0";
  const values = isOptional
    ? ""
    : Array.from({ length: count }, () => example).join(datatype === "BYTES" ? "\n" : ", ");
  return { name, datatype, isOptional, shape: sizes.join(", "), values };
}

/** Undefined for an optional input without values. @throws Error that says what to change */
export function tensorOf(draft: TensorDraft): TensorInput | undefined {
  const { name, datatype, file } = draft;
  if (draft.isOptional && draft.values.trim() === "" && file === undefined) return undefined;
  const shape = shapeOf(draft);
  const data = file === undefined ? dataOf(draft) : [file.name];
  const expected = countOf(shape);
  if (data.length === expected) return { name, datatype, shape, data };
  throw new Error(`${name}: the shape ${draft.shape} holds ${expected} elements, but there are ${data.length} values`);
}

function shapeOf({ name, shape }: TensorDraft): readonly number[] {
  const sizes = shape.split(/[\s,]+/).filter((part) => part !== "");
  return sizes.map((size) => {
    if (/^\d+$/.test(size)) return Number(size);
    throw new Error(`${name}: a shape has whole numbers, as 1, 3; got '${size}'`);
  });
}

function dataOf({ name, datatype, values }: TensorDraft): readonly unknown[] {
  const text = values.trim();
  if (text.startsWith("[")) return flatJson(name, text);
  if (datatype === "BYTES") return values.split("\n");
  const words = text.split(/[\s,]+/).filter((word) => word !== "");
  return words.map((word) => scalarOf(name, datatype, word));
}

function flatJson(name: string, text: string): readonly unknown[] {
  try {
    return (JSON.parse(text) as unknown[]).flat(Number.POSITIVE_INFINITY);
  } catch {
    throw new Error(`${name}: values that begin with [ are JSON, and this is none`);
  }
}

function scalarOf(name: string, datatype: string, word: string): unknown {
  if (datatype === "BOOL") {
    if (/^(true|1)$/i.test(word)) return true;
    if (/^(false|0)$/i.test(word)) return false;
    throw new Error(`${name}: BOOL takes true or false, got '${word}'`);
  }
  const value = Number(word);
  const isInteger = /INT/.test(datatype);
  if (Number.isNaN(value) || (isInteger && !INTEGER.test(word))) {
    throw new Error(`${name}: ${datatype} takes ${isInteger ? "whole numbers" : "numbers"}, got '${word}'`);
  }
  return value;
}

function countOf(shape: readonly number[]): number {
  return shape.reduce((count, size) => count * size, 1);
}

const BYTES_PREFIX = 4;

/**
 * A body with files in binary behind the JSON, and the length of the JSON. An element of BYTES has its length in front of it,
 * in four bytes, the lowest first. Source: Triton's binary tensor data extension.
 */
export function bodyWithFiles(
  inputs: readonly TensorInput[],
  files: ReadonlyMap<string, Uint8Array>,
): { readonly body: Uint8Array; readonly jsonBytes: number } {
  const entries = inputs.map(({ data, ...rest }) => {
    const bytes = files.get(rest.name);
    return bytes === undefined
      ? { ...rest, data }
      : { ...rest, parameters: { binary_data_size: bytes.length + BYTES_PREFIX } };
  });
  const json = new TextEncoder().encode(JSON.stringify({ inputs: entries }));
  const tail = inputs.flatMap(({ name }) => files.get(name) ?? []);
  const body = new Uint8Array(json.length + tail.reduce((sum, bytes) => sum + bytes.length + BYTES_PREFIX, 0));
  body.set(json);
  let at = json.length;
  for (const bytes of tail) {
    new DataView(body.buffer).setUint32(at, bytes.length, true);
    body.set(bytes, at + BYTES_PREFIX);
    at += bytes.length + BYTES_PREFIX;
  }
  return { body, jsonBytes: json.length };
}
