/** Messages between the engine host and its mask threads: one in each direction for all that a step accepts. */
import type { ForcedRun } from "./forced-run.ts";
import type { GrammarSource } from "./grammar-source.ts";
import type { Grammar } from "./guide-grammar.ts";
import type { GuideVocabulary } from "./guide-vocabulary.ts";

export interface MaskThreadData {
  /** Folder with the model's tokenizer.json. */
  readonly tokenizerDir: string;
  /** Width of the logits, which may exceed the tokenizer's vocabulary. */
  readonly vocabSize: number;
  /** The session at work, [1] on shared memory; 0 = none. It tells which one a thread died with. */
  readonly current: Int32Array;
  /** Read by an earlier thread. */
  readonly vocabulary?: GuideVocabulary | undefined;
}

/** The same for all threads of a model. */
export interface MaskThreadOptions extends Omit<MaskThreadData, "current" | "vocabulary"> {
  /** Tokens that a guide forces are written too, with their masks. Default: true. */
  readonly hasForcedRuns?: boolean | undefined;
}

export interface OpenSession {
  readonly session: number;
  readonly grammar: Grammar;
  readonly source: GrammarSource;
  readonly endIds: readonly number[];
  /** Tokens accepted before, when a thread takes over from one that died. */
  readonly tokens: readonly number[];
  /** On shared memory; the thread writes the mask of the next token there. */
  readonly mask: Int32Array;
  /** On shared memory; written after the mask. Absent: nobody reads forced runs. */
  readonly forced: ForcedRun | undefined;
}

/** Steps of one turn, or a session to open. Steps overtake sessions that wait to be opened, other than their own. */
export type MaskJob =
  | { readonly id: number; readonly open: OpenSession }
  /** Pairs of a session and a step, in order. */
  | { readonly id: number; readonly steps: Int32Array };

/** This step closes the session. A token of 0 or more is accepted; `rollbackStep` gives the others. */
export const CLOSE_STEP = -1;

export function rollbackStep(numTokens: number): number {
  return -1 - numTokens;
}

export interface MaskFailure {
  readonly session: number;
  /** `budget`: too much work, which took `ms`. */
  readonly cause: "budget" | "error";
  readonly message: string;
  readonly ms: number;
}

export interface MaskAnswer {
  readonly id: number;
  readonly failures: readonly MaskFailure[];
}

/** The first message: the thread takes jobs from now on. */
export interface MaskThreadReady {
  readonly vocabulary: GuideVocabulary;
}
