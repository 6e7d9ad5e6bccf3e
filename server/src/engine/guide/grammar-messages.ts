/**
 * Messages between the engine host and a grammar worker. Every request has an id, and exactly one answer with that id.
 */
import type { Grammar } from "./guide-grammar.ts";

export interface GrammarWorkerData {
  /** Folder with the model's tokenizer.json. */
  readonly tokenizerDir: string;
  /** Width of the logits, which may exceed the tokenizer's vocabulary. */
  readonly vocabSize: number;
}

export type GrammarJob =
  /** Compiles, to see whether that works and how long it takes. */
  | { readonly op: "try"; readonly grammar: Grammar; readonly endIds: readonly number[] }
  /** Begins a text. This and `accept` are answered with the mask of the next token. */
  | {
      readonly op: "open";
      readonly session: number;
      readonly grammar: Grammar;
      readonly endIds: readonly number[];
    }
  | { readonly op: "accept"; readonly session: number; readonly token: number }
  | { readonly op: "close"; readonly session: number };

export interface GrammarRequest {
  readonly id: number;
  readonly job: GrammarJob;
}

/** `id` 0 tells that the worker is ready, or why it will never be. */
export interface GrammarAnswer {
  readonly id: number;
  readonly mask?: Int32Array;
  /** Processor time that the mask took. */
  readonly maskMs?: number;
  readonly error?: string;
}
