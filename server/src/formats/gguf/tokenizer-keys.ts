/** Reads and checks the keys `tokenizer.ggml.*` of GGUF metadata. Source: ggml/docs/gguf.md, "Tokenizer". */

import type { GgufValue } from "./header.ts";

export type Metadata = ReadonlyMap<string, GgufValue>;

/** A token that a key refers to. */
export interface NamedToken {
  readonly id: number;
  readonly text: string;
}

/** Token types by number (`tokenizer.ggml.token_type`). */
export const TOKEN_TYPES = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

export class TokenizerKeys {
  readonly #metadata: Metadata;
  readonly #file: string;
  readonly tokens: readonly string[];
  /** Undefined: all tokens are normal ones. */
  readonly types: readonly number[] | undefined;

  /** @throws Error naming file and key */
  constructor(metadata: Metadata, file: string) {
    this.#metadata = metadata;
    this.#file = file;
    const tokens = this.#get("tokens");
    if (!isListOf(tokens, "string") || tokens.length === 0) throw this.refusal("tokens", "a list of texts", undefined);
    this.tokens = tokens;
    const types = this.#get("token_type");
    const areTypes = types === undefined || (isListOf(types, "number") && types.length === tokens.length);
    if (!areTypes) throw this.refusal("token_type", `${tokens.length} numbers`, undefined);
    this.types = types;
  }

  text(key: string): string | undefined {
    const value = this.#get(key);
    return typeof value === "string" ? value : undefined;
  }

  flag(key: string): boolean | undefined {
    const value = this.#get(key);
    return typeof value === "boolean" ? value : undefined;
  }

  typeOf(id: number): number {
    return this.types?.[id] ?? TOKEN_TYPES.normal;
  }

  /** The token that a key refers to by id. `byDefault`: its id where the key is missing, if there is such a token. */
  token(key: string, byDefault?: number): NamedToken | undefined {
    const id = this.#get(key);
    if (id === undefined) return this.#tokenAt(byDefault);
    const found = typeof id === "number" ? this.#tokenAt(id) : undefined;
    if (found !== undefined) return found;
    throw this.refusal(key, `an id from 0 to ${this.tokens.length - 1}`, id);
  }

  /** A number for each token. */
  numbers(key: string): readonly number[] {
    const value = this.#get(key);
    if (isListOf(value, "number") && value.length === this.tokens.length) return value;
    throw this.refusal(key, `${this.tokens.length} numbers`, value === undefined ? undefined : "others");
  }

  texts(key: string): readonly string[] {
    const value = this.#get(key);
    if (isListOf(value, "string")) return value;
    throw this.refusal(key, "a list of texts", undefined);
  }

  /** Undefined when the key is missing. Files hold signed or unsigned bytes. */
  bytes(key: string): Uint8Array | undefined {
    const value = this.#get(key);
    if (value === undefined) return undefined;
    if (isListOf(value, "number") && value.every((byte) => Number.isInteger(byte) && byte >= -128 && byte <= 255)) {
      return Uint8Array.from(value);
    }
    throw this.refusal(key, "a list of bytes", "others");
  }

  refusal(key: string, expected: string, got: unknown): Error {
    const shown = got === undefined ? "nothing" : JSON.stringify(String(got).slice(0, 80));
    return new Error(`${this.#file}: tokenizer.ggml.${key}: expected ${expected}, got ${shown}`);
  }

  chatTemplate(): string | undefined {
    const value = this.#metadata.get("tokenizer.chat_template");
    return typeof value === "string" ? value : undefined;
  }

  #tokenAt(id: number | undefined): NamedToken | undefined {
    const text = id === undefined ? undefined : this.tokens[id];
    return id === undefined || text === undefined ? undefined : { id, text };
  }

  #get(key: string): GgufValue | undefined {
    return this.#metadata.get(`tokenizer.ggml.${key}`);
  }
}

function isListOf(value: unknown, type: "string"): value is readonly string[];
function isListOf(value: unknown, type: "number"): value is readonly number[];
function isListOf(value: unknown, type: "string" | "number"): boolean {
  return Array.isArray(value) && value.every((item) => typeof item === type);
}
