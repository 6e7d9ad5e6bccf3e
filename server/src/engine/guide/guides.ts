/** The contract between the step loop and a grammar engine: masks of allowed tokens, ahead of each token. */
import type { Guide } from "../request/generate.ts";

export interface Guides {
  /**
   * Prepares the guide for one sequence, its first mask included. `endIds` are allowed where the text is complete.
   * @throws ServerError when the guide makes no sense or takes too long
   */
  open(guide: Guide, endIds: Int32Array): Promise<GuideSession>;
  /** Starts what all guides need, so that the first one does not wait for it. A failure is left to that one. */
  warmUp?(): Promise<void>;
  close(): Promise<void>;
}

/** The guide of one sequence. */
export interface GuideSession {
  /** Bit mask of the tokens allowed next. `accept` updates it in place; read it once nothing is pending. */
  readonly mask: Int32Array;
  /** Settles when the mask is that of the next token; undefined when it is already. Never rejects. */
  readonly pending: Promise<void> | undefined;
  /** Why there will be no more masks. */
  readonly failure: Error | undefined;
  /**
   * Tokens that must come next, or are the usual spelling of a text that must: draft tokens of high probability. Known once
   * nothing is pending. While they are accepted in order, the mask is that of the next token at once.
   */
  readonly forced?: Int32Array;
  /** The mask behind the first of them, and so on; those of now. */
  maskBehind?(index: number): Int32Array;
  /** Moves on by a token that the mask allowed. */
  accept(token: number): void;
  /** Takes the last accepted tokens back: draft tokens that the model did not choose. At most 256. */
  rollback?(numTokens: number): void;
  close(): void;
}
