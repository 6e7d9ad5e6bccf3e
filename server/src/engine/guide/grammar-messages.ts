/**
 * Messages between the engine host and the process of the grammar library. Every request has an id, and exactly one answer
 * with that id.
 */
import type { GrammarSource } from "./grammar-source.ts";
import type { Grammar } from "./guide-grammar.ts";

export interface GrammarRequest {
  readonly id: number;
  readonly grammar: Grammar;
}

/** `id` 0 tells that the process is ready, or why it will never be. */
export interface GrammarAnswer {
  readonly id: number;
  readonly source?: GrammarSource;
  readonly error?: string;
}
