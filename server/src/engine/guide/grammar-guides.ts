/**
 * Guided decoding in two processes. The first compiles each new grammar and can be killed at any time, so a wrong or
 * slow grammar costs only that process. The second compiles the accepted ones again and makes all masks while the
 * device computes. Verdicts are remembered, so a bad grammar is compiled once.
 */
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Guide } from "../request/generate.ts";
import type { GrammarAnswer, GrammarWorkerData } from "./grammar-messages.ts";
import { GrammarProcess, GrammarTimeout } from "./grammar-process.ts";
import { type Grammar, grammarOf } from "./guide-grammar.ts";
import type { GuideSession, Guides } from "./guides.ts";

/** Time that a client's guide may take to compile. */
const COMPILE_LIMIT_MS = 1000;
/** For a process that also has the masks of others to make. */
const MASK_LIMIT_MS = 5000;
/**
 * Processor time for one mask; usual ones take a tenth of a millisecond. Texts with many readings make each mask slower
 * than the last, and every step waits for the masks of its sequences.
 */
const MAX_MASK_MS = 100;
/** Guides whose verdict is remembered. */
const MAX_VERDICTS = 256;

export class GrammarGuides implements Guides {
  readonly #data: GrammarWorkerData;
  #trials: GrammarProcess | undefined;
  #masks: GrammarProcess | undefined;
  /** By guide: undefined = it compiles. Least recently used first. */
  readonly #verdicts = new Map<string, ServerError | undefined>();
  /** Trials run one after the other, so that each has its full time. */
  #lastTrial: Promise<unknown> = Promise.resolve();
  #nextSession = 1;
  #isClosed = false;

  constructor(data: GrammarWorkerData) {
    this.#data = data;
  }

  async open(guide: Guide, endIds: Int32Array): Promise<GuideSession> {
    const grammar = grammarOf(guide);
    const key = JSON.stringify(grammar);
    if (!this.#verdicts.has(key)) {
      const trial = this.#lastTrial.then(() => this.#judge(key, grammar, endIds));
      this.#lastTrial = trial.catch(() => undefined);
      await trial;
    }
    const verdict = this.#verdicts.get(key);
    this.#remember(key, verdict);
    if (verdict !== undefined) throw verdict;
    return this.#begin(grammar, endIds);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const error = new ServerError("unavailable", "the engine is closed");
    this.#trials?.end(error);
    this.#masks?.end(error);
  }

  async #judge(key: string, grammar: Grammar, endIds: Int32Array): Promise<void> {
    if (this.#verdicts.has(key)) return; // a request just before had the same guide
    if (this.#isClosed) throw new ServerError("unavailable", "the engine is closed");
    if (this.#trials === undefined || this.#trials.hasEnded) {
      this.#trials = new GrammarProcess(this.#data, COMPILE_LIMIT_MS);
    }
    try {
      await this.#trials.run({ op: "try", grammar, endIds: [...endIds] });
      this.#remember(key, undefined);
    } catch (error) {
      if (error instanceof ServerError) throw error;
      this.#remember(key, refusal(error));
    }
  }

  #remember(key: string, verdict: ServerError | undefined): void {
    this.#verdicts.delete(key);
    this.#verdicts.set(key, verdict);
    const [oldest] = this.#verdicts.keys();
    if (this.#verdicts.size > MAX_VERDICTS && oldest !== undefined) this.#verdicts.delete(oldest);
  }

  async #begin(grammar: Grammar, endIds: Int32Array): Promise<GuideSession> {
    if (this.#masks === undefined || this.#masks.hasEnded) this.#masks = new GrammarProcess(this.#data, MASK_LIMIT_MS);
    const session = new GrammarSession(this.#masks, this.#nextSession++, this.#data.vocabSize);
    try {
      await session.begin(grammar, endIds);
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      throw new ServerError("internal", `guided decoding failed: ${message}`, { cause });
    }
    return session;
  }
}

class GrammarSession implements GuideSession {
  readonly mask: Int32Array;
  readonly #process: GrammarProcess;
  readonly #id: number;
  #pending: Promise<void> | undefined;
  #failure: Error | undefined;

  constructor(grammars: GrammarProcess, id: number, vocabSize: number) {
    this.#process = grammars;
    this.#id = id;
    this.mask = new Int32Array(Math.ceil(vocabSize / 32));
  }

  get pending(): Promise<void> | undefined {
    return this.#pending;
  }

  get failure(): Error | undefined {
    return this.#failure;
  }

  async begin(grammar: Grammar, endIds: Int32Array): Promise<void> {
    this.#take(await this.#process.run({ op: "open", session: this.#id, grammar, endIds: [...endIds] }));
  }

  accept(token: number): void {
    this.#pending = this.#process.run({ op: "accept", session: this.#id, token }).then(
      (answer) => {
        this.#pending = undefined;
        this.#take(answer);
        if ((answer.maskMs ?? 0) > MAX_MASK_MS) this.#failure = ambiguous(answer.maskMs ?? 0);
      },
      (error: Error) => {
        this.#pending = undefined;
        this.#failure = error;
      },
    );
  }

  /** Bits beyond the library's mask stay 0: those tokens are not in the tokenizer. */
  #take({ mask }: GrammarAnswer): void {
    if (mask !== undefined) this.mask.set(mask.subarray(0, this.mask.length));
  }

  close(): void {
    this.#process.run({ op: "close", session: this.#id }).catch(() => undefined); // a process that ended has forgotten it
  }
}

function ambiguous(maskMs: number): ServerError {
  return invalidArgument(
    `the guide is ambiguous: one token took ${Math.round(maskMs)} ms to prepare, at most ` +
      `${MAX_MASK_MS} ms are allowed; make it less ambiguous`,
  );
}

function refusal(error: unknown): ServerError {
  if (error instanceof GrammarTimeout) {
    return invalidArgument(`the guide takes more than ${COMPILE_LIMIT_MS / 1000} s to compile: make it simpler`);
  }
  const message = error instanceof Error ? error.message : String(error);
  return invalidArgument(`the guide cannot be compiled: ${message}`);
}
