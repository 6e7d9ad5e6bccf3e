/**
 * Adapters as words that cross to another thread or machine, and back: the beginning, then change by change, so that none of
 * these is as large as all. Pure; it knows no way of crossing.
 */
import type { LoraAdapter, LoraChange, LoraLinear } from "../../formats/lora/lora-adapter.ts";

export type AdapterFrame =
  | { readonly kind: "load"; readonly id: number; readonly numChanges: number }
  | { readonly kind: "change"; readonly change: LoraChange }
  | { readonly kind: "unload"; readonly id: number };

/** The first word, where a step has its number of tokens. */
const LOAD = -1;
const CHANGE = -2;
const UNLOAD = -3;
const LINEARS: readonly LoraLinear[] = ["qkv", "oProj", "mlpIn", "mlpOut"];
/** Kind, layer, linear layer, column, inputs, outputs, rank. */
const CHANGE_WORDS = 7;

/** In the order in which they are to be sent. */
export function* frameAdapter(id: number, { changes }: LoraAdapter): Generator<Int32Array> {
  yield Int32Array.of(LOAD, id, changes.length);
  for (const change of changes) yield frameChange(change);
}

export function frameUnload(id: number): Int32Array {
  return Int32Array.of(UNLOAD, id);
}

/** Undefined: the words are a step. @throws Error when they are not as many as they say */
export function unframeAdapter(words: Int32Array): AdapterFrame | undefined {
  const [kind = 0, id = 0, numChanges = 0] = words;
  if (kind === LOAD) return { kind: "load", id, numChanges };
  if (kind === UNLOAD) return { kind: "unload", id };
  return kind === CHANGE ? { kind: "change", change: unframeChange(words) } : undefined;
}

function frameChange({ layer, target, rank, a, b }: LoraChange): Int32Array {
  const { linear, column, inputs, outputs } = target;
  const words = new Int32Array(CHANGE_WORDS + a.length + b.length);
  words.set([CHANGE, layer, LINEARS.indexOf(linear), column, inputs, outputs, rank]);
  const numbers = new Float32Array(words.buffer);
  numbers.set(a, CHANGE_WORDS);
  numbers.set(b, CHANGE_WORDS + a.length);
  return words;
}

/** Views of `words`. */
function unframeChange(words: Int32Array): LoraChange {
  const [, layer = 0, index = 0, column = 0, inputs = 0, outputs = 0, rank = 0] = words;
  const linear = LINEARS[index];
  const expected = CHANGE_WORDS + rank * (inputs + outputs);
  if (linear === undefined || words.length !== expected) {
    throw new Error(`a change of an adapter of ${expected} words, got ${words.length}`);
  }
  const numbers = new Float32Array(words.buffer, words.byteOffset, words.length);
  const bAt = CHANGE_WORDS + rank * inputs;
  const target = { linear, column, inputs, outputs };
  return { layer, target, rank, a: numbers.subarray(CHANGE_WORDS, bAt), b: numbers.subarray(bAt) };
}
