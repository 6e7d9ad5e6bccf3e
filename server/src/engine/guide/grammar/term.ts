/**
 * Expressions over bytes. Equal ones are the same object, whichever grammar they come from, and so is all that is kept
 * about them. Source: hash-consed derivatives as in Owens, Reppy, Turon, "Regular-expression derivatives re-examined"
 * (2009); calls of rules make them context-free, as in Might, Darais, Spiewak, "Parsing with derivatives" (2011).
 */
import type { ByteSet } from "./byte-set.ts";

interface TermFacts {
  readonly id: number;
  /** Whether the empty text fits. */
  readonly isNullable: boolean;
  /** Whether many characters fit somewhere in it, so that most tokens are to be looked at. */
  readonly isWide: boolean;
  /** Whether the last byte is one of few, so that few tokens go beyond its end. */
  readonly endsNarrow: boolean;
  /** Elements in a row. */
  readonly length: number;
  /** Its linear form; see linear-form.ts. */
  edges: readonly Edge[] | undefined;
}

export type Term = TermFacts &
  (
    | { readonly kind: "nothing" | "empty" }
    | { readonly kind: "bytes"; readonly set: ByteSet }
    /** `first` is no concatenation itself. */
    | { readonly kind: "concat"; readonly first: Term; readonly rest: Term }
    | { readonly kind: "choice"; readonly options: readonly Term[] }
    | { readonly kind: "repeat"; readonly part: Term; readonly min: number; readonly max: number }
    | { readonly kind: "call"; readonly rule: Rule }
    /** Free text, in one state of its machine. */
    | { readonly kind: "dispatch"; readonly machine: DispatchMachine; readonly state: number }
  );

/** A rule that is called, rather than copied to its places. */
export interface Rule {
  readonly id: number;
  readonly isNullable: boolean;
  /** Undefined until the grammar is complete. */
  body: Term | undefined;
}

/** After any of the bytes the frames are left to match, the first of them first. The last may have more behind it. */
export interface Edge {
  readonly bytes: ByteSet;
  readonly frames: readonly Term[];
}

/** Free text up to one of some triggers. */
export interface DispatchMachine {
  /** Equal machines have equal keys. */
  readonly key: string;
  readonly mayEndAnywhere: boolean;
  readonly states: readonly DispatchState[];
}

export interface DispatchState {
  /** The state behind each byte, [256]. */
  readonly next: Uint16Array;
  /** The trigger whose last byte leads here. */
  readonly trigger: Trigger | undefined;
}

export interface Trigger {
  readonly bytes: readonly number[];
  /** The term that follows it. */
  readonly following: Term;
  /** Whether free text follows that. */
  readonly goesOn: boolean;
}
