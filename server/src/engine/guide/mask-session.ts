/** The guide of one sequence, as the step loop sees it: its mask is in memory that a mask thread writes. */
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import { createForcedRun, type ForcedRun, forcedTokens, maskBehind, NO_RUN } from "./forced-run.ts";
import type { GrammarSource } from "./grammar-source.ts";
import type { Grammar } from "./guide-grammar.ts";
import type { GuideSession } from "./guides.ts";
import {
  CLOSE_STEP,
  type MaskFailure,
  type MaskThreadOptions,
  type OpenSession,
  rollbackStep,
} from "./mask-messages.ts";
import type { BatchTicket, MaskThreadHost } from "./mask-thread-host.ts";

/** The budget of a mask, in time on an idle machine. */
const MAX_MASK_MS = 100;
const NOTHING = new Int32Array(0);

export interface SessionGuide {
  readonly grammar: Grammar;
  readonly source: GrammarSource;
  readonly endIds: readonly number[];
}

export class MaskSession implements GuideSession {
  readonly id: number;
  /** Has more time for the session, and takes over with the next token. */
  nextThread: MaskThreadHost | undefined;
  readonly #guide: SessionGuide;
  readonly #onClose: (session: MaskSession) => void;
  readonly #tokens: number[] = [];
  /** Written by the thread. */
  readonly #mask: Int32Array;
  readonly #run: ForcedRun;
  /** Tokens of the run that were accepted since it was written. */
  #numPassed = 0;
  #isOnRun = false;
  #thread: MaskThreadHost;
  #ticket: BatchTicket;
  #failure: Error | undefined;
  #isOpen = false;

  constructor(
    id: number,
    guide: SessionGuide,
    { vocabSize, hasForcedRuns = true }: Pick<MaskThreadOptions, "vocabSize" | "hasForcedRuns">,
    thread: MaskThreadHost,
    onClose: (session: MaskSession) => void,
  ) {
    this.id = id;
    this.#guide = guide;
    this.#onClose = onClose;
    this.#mask = new Int32Array(new SharedArrayBuffer(4 * Math.ceil(vocabSize / 32)));
    this.#run = hasForcedRuns ? createForcedRun(vocabSize) : NO_RUN;
    this.#thread = thread;
    this.#ticket = thread.open(this.#opening());
  }

  get mask(): Int32Array {
    const isKnown = this.#numPassed > 0 && !this.#ticket.isDone;
    return isKnown ? maskBehind(this.#run, this.#numPassed - 1) : this.#mask;
  }

  get forced(): Int32Array {
    return this.#ticket.isDone && this.#failure === undefined ? forcedTokens(this.#run) : NOTHING;
  }

  maskBehind(index: number): Int32Array {
    return maskBehind(this.#run, index);
  }

  get thread(): MaskThreadHost {
    return this.#thread;
  }

  get pending(): Promise<void> | undefined {
    return this.#ticket.isDone ? undefined : this.#settled();
  }

  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Waits for the first mask. @throws Error when there is none */
  async opened(): Promise<void> {
    await this.#settled();
    if (this.#failure !== undefined) throw this.#failure;
    this.#isOpen = true;
  }

  accept(token: number): void {
    this.#tokens.push(token);
    if (this.#failure !== undefined) return;
    this.#pass(token);
    // One at a time, since a thread reads the guide first; and no other thread writes the mask then, nor the run.
    const mayMove = this.#ticket.isDone && !this.#isOnRun;
    if (mayMove && this.nextThread?.isOpening === false) this.#goOnIn(this.nextThread);
    else this.#ticket = this.#thread.step(this.id, token);
  }

  rollback(numTokens: number): void {
    this.#tokens.length -= numTokens;
    this.#isOnRun = false;
    this.#numPassed = 0;
    if (this.#failure === undefined) this.#ticket = this.#thread.step(this.id, rollbackStep(numTokens));
  }

  close(): void {
    this.#thread.step(this.id, CLOSE_STEP);
    this.#onClose(this);
  }

  /** Follows the run: it is new when the thread has answered, and of no use after a token that is not in it. */
  #pass(token: number): void {
    if (this.#ticket.isDone) {
      this.#numPassed = 0;
      this.#isOnRun = true;
    }
    this.#isOnRun = this.#isOnRun && forcedTokens(this.#run)[this.#numPassed] === token;
    this.#numPassed = this.#isOnRun ? this.#numPassed + 1 : 0;
  }

  /** There will be no more masks. */
  fail(error: Error): void {
    this.#failure ??= error;
  }

  failed({ cause, message, ms }: MaskFailure): void {
    const isBudget = cause === "budget";
    this.fail(isBudget ? (this.#isOpen ? ambiguous(ms) : new CompileLimitError()) : new Error(message));
  }

  #goOnIn(thread: MaskThreadHost): void {
    this.#thread.step(this.id, CLOSE_STEP);
    this.moveTo(thread);
  }

  /** Goes on in another thread; unanswered tickets settle with the first mask from there. */
  moveTo(thread: MaskThreadHost): void {
    this.#thread = thread;
    this.nextThread = undefined;
    this.#ticket = thread.open(this.#opening());
  }

  /** Masks that a lost thread owed come from the next one. */
  async #settled(): Promise<void> {
    for (let last: BatchTicket | undefined; last !== this.#ticket; ) {
      last = this.#ticket;
      await last.done;
    }
  }

  #opening(): OpenSession {
    const forced = this.#run === NO_RUN ? undefined : this.#run;
    return { session: this.id, ...this.#guide, tokens: [...this.#tokens], mask: this.#mask, forced };
  }
}

/** Says that a guide takes too long before its first mask. */
export class CompileLimitError extends Error {}

function ambiguous(ms: number): ServerError {
  return invalidArgument(
    `the guide is ambiguous: one token took ${Math.round(ms)} ms to prepare, at most ` +
      `${MAX_MASK_MS} ms are allowed; make it less ambiguous`,
  );
}
