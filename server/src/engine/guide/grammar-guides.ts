/**
 * Guided decoding. The grammar library turns a guide into EBNF in a process of its own, which can be killed at any time.
 * Threads make masks from that while the device computes. Results are remembered: a bad guide is tried once.
 */
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Guide } from "../request/generate.ts";
import { GrammarTimeout } from "./grammar-process.ts";
import { GrammarProcesses } from "./grammar-processes.ts";
import { type GrammarSource, sourceBytes } from "./grammar-source.ts";
import { type Grammar, grammarOf } from "./guide-grammar.ts";
import type { GuideSession, Guides } from "./guides.ts";
import type { MaskThreadOptions } from "./mask-messages.ts";
import { CompileLimitError } from "./mask-session.ts";
import { MaskThreads } from "./mask-threads.ts";
import { practise } from "./practice.ts";

/** Time that a client's guide may take to compile. */
const COMPILE_LIMIT_MS = 1000;
/** Mask threads for each process that converts guides. */
const THREADS_FOR_PROCESS = 2;
/** Guides that are remembered, and their bytes. */
const MAX_VERDICTS = 256;
const MAX_VERDICT_BYTES = 64 * 1024 * 1024;

type Verdict = GrammarSource | ServerError;

export class GrammarGuides implements Guides {
  readonly #threads: MaskThreads;
  readonly #processes: GrammarProcesses;
  readonly #vocabSize: number;
  /** By guide; least recently used first. */
  readonly #verdicts = new Map<string, Verdict>();
  #verdictBytes = 0;
  /** Under way, by guide. */
  readonly #trials = new Map<string, Promise<void>>();
  #isClosed = false;

  constructor(data: MaskThreadOptions) {
    this.#threads = new MaskThreads(data);
    this.#processes = new GrammarProcesses(COMPILE_LIMIT_MS, Math.ceil(this.#threads.maxThreads / THREADS_FOR_PROCESS));
    this.#vocabSize = data.vocabSize;
  }

  async open(guide: Guide, endIds: Int32Array): Promise<GuideSession> {
    const grammar = grammarOf(guide);
    const key = JSON.stringify(grammar);
    const source = await this.#sourceOf(key, grammar);
    try {
      return await this.#threads.open({ grammar, source, endIds: [...endIds] });
    } catch (error) {
      if (error instanceof ServerError) throw error;
      if (!(error instanceof CompileLimitError)) throw failed(error);
      const refused = tooSlow();
      this.#remember(key, refused);
      throw refused;
    }
  }

  async warmUp(): Promise<void> {
    const noEnds = new Int32Array(0);
    await practise((guide) => this.open(guide, noEnds), this.#threads.manySessions, this.#vocabSize).catch(
      () => undefined,
    );
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const error = closed();
    this.#processes.end(error);
    this.#threads.close(error);
  }

  async #sourceOf(key: string, grammar: Grammar): Promise<GrammarSource> {
    if (!this.#verdicts.has(key)) await this.#trial(key, grammar);
    const verdict = this.#verdicts.get(key) ?? closed();
    this.#remember(key, verdict);
    if (verdict instanceof ServerError) throw verdict;
    return verdict;
  }

  /** One for all requests with the same guide. */
  #trial(key: string, grammar: Grammar): Promise<void> {
    const known = this.#trials.get(key);
    if (known !== undefined) return known;
    const trial = this.#judge(key, grammar).finally(() => this.#trials.delete(key));
    this.#trials.set(key, trial);
    return trial;
  }

  async #judge(key: string, grammar: Grammar): Promise<void> {
    if (this.#isClosed) throw closed();
    try {
      const { source } = await this.#processes.run(grammar);
      if (source === undefined) throw new Error("the grammar process gave no grammar");
      this.#remember(key, source);
    } catch (error) {
      if (error instanceof ServerError) throw error;
      this.#remember(key, refusal(error));
    }
  }

  #remember(key: string, verdict: Verdict): void {
    this.#forget(key);
    this.#verdicts.set(key, verdict);
    this.#verdictBytes += bytesOf(key, verdict);
    for (const [oldest] of this.#verdicts) {
      if (this.#verdicts.size <= MAX_VERDICTS && this.#verdictBytes <= MAX_VERDICT_BYTES) return;
      if (oldest !== key) this.#forget(oldest);
    }
  }

  #forget(key: string): void {
    const verdict = this.#verdicts.get(key);
    if (verdict === undefined) return;
    this.#verdicts.delete(key);
    this.#verdictBytes -= bytesOf(key, verdict);
  }
}

function bytesOf(key: string, verdict: Verdict): number {
  return 2 * key.length + (verdict instanceof ServerError ? 0 : sourceBytes(verdict));
}

function closed(): ServerError {
  return new ServerError("unavailable", "the engine is closed");
}

function tooSlow(): ServerError {
  return invalidArgument(`the guide takes more than ${COMPILE_LIMIT_MS / 1000} s to compile: make it simpler`);
}

function failed(cause: unknown): ServerError {
  const message = cause instanceof Error ? cause.message : String(cause);
  return new ServerError("internal", `guided decoding failed: ${message}`, { cause });
}

function refusal(error: unknown): ServerError {
  if (error instanceof GrammarTimeout) return tooSlow();
  const message = error instanceof Error ? error.message : String(error);
  return invalidArgument(`the guide cannot be compiled: ${message}`);
}
