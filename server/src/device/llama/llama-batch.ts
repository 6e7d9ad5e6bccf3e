/**
 * Arrays of one call of llama_decode or llama_encode, kept for the life of a context so that C may read them. It decides
 * nothing. Source: llama_batch in llama.h of llama.cpp 0.5.0.
 */
import { type Address, addressOf } from "../../native/ffi.ts";
import type { LlamaBatch } from "../../native/llama/functions.ts";

export class LlamaTokenBatch {
  readonly capacity: number;
  readonly #tokens: Int32Array;
  readonly #positions: Int32Array;
  readonly #counts: Int32Array;
  readonly #sequences: Int32Array;
  readonly #lists: BigUint64Array;
  readonly #wanted: Int8Array;
  readonly #addresses: Readonly<Record<"token" | "pos" | "n_seq_id" | "seq_id" | "logits", Address>>;
  #length = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.#tokens = new Int32Array(capacity);
    this.#positions = new Int32Array(capacity);
    this.#counts = new Int32Array(capacity).fill(1);
    this.#sequences = new Int32Array(capacity);
    const first = addressOf(this.#sequences);
    this.#lists = BigUint64Array.from({ length: capacity }, (_, i) => first + BigInt(4 * i));
    this.#wanted = new Int8Array(capacity);
    this.#addresses = {
      token: addressOf(this.#tokens),
      pos: addressOf(this.#positions),
      n_seq_id: addressOf(this.#counts),
      seq_id: addressOf(this.#lists),
      logits: addressOf(this.#wanted),
    };
  }

  get length(): number {
    return this.#length;
  }

  clear(): void {
    this.#length = 0;
  }

  /** Gives its index. There must be room. */
  add(token: number, position: number, sequence: number, isWanted: boolean): number {
    const at = this.#length;
    if (at >= this.capacity) throw new Error(`llama batch: expected at most ${this.capacity} tokens`);
    this.#tokens[at] = token;
    this.#positions[at] = position;
    this.#sequences[at] = sequence;
    this.#wanted[at] = isWanted ? 1 : 0;
    this.#length = at + 1;
    return at;
  }

  /** Valid for as long as this object is referenced and not changed. */
  asStruct(): LlamaBatch {
    return { n_tokens: this.#length, embd: null, ...this.#addresses };
  }
}
