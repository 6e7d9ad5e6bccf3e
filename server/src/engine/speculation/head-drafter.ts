/**
 * Drafts by a head that reads hidden states of the model (EAGLE-3, multi-token prediction): a chain of the most likely
 * tokens, or of those that a request's sampling takes. Keys and values of the head lie in blocks of the same numbers as the
 * model's, so that prefixes are shared for both. Drafts change the speed of an answer, not its text.
 */
import type { Sequence } from "../request/sequence.ts";
import { Sampler } from "../sample/sampler.ts";
import type { StepInput, StepRunner, StepSequence } from "../step-runner.ts";
import type { DraftHead, HeadStep } from "./draft-head.ts";
import { type Drafter, wantedDrafts } from "./drafter.ts";
import { addDraft, createMirror } from "./mirror.ts";
import type { SpeculationConfig } from "./speculation-config.ts";
import { WaitingRows, type WaitingRun } from "./waiting-rows.ts";

/** More rows than a step verifies wait for no draft: they are a prompt's, and are read at once. */
const MAX_WAITING = 65;

/** One sequence's part of a pass. */
interface HeadShare {
  readonly blockTable: Int32Array;
  /** Position of its first row, and the tokens behind its rows. */
  readonly first: number;
  readonly tokens: readonly number[];
  readonly rows: readonly Float32Array[];
}

interface Job {
  readonly sequence: Sequence;
  readonly mirror: Sequence;
  readonly wanted: number;
  /** Blocks of the sequence, then spare ones. */
  readonly blockTable: Int32Array;
  /** Given by the last pass. */
  token: number;
  hidden: Float32Array;
}

/** Blocks that the drafts of a sequence may reach into beside its own. */
export function spareBlocksFor({ maxDraftTokens }: SpeculationConfig, blockSize: number): number {
  return Math.ceil(maxDraftTokens / blockSize) + 1;
}

export class HeadDrafter implements Drafter {
  readonly #head: DraftHead;
  readonly #config: SpeculationConfig;
  readonly #maxBatchTokens: number;
  readonly #waiting: WaitingRows;
  readonly #mirrors = new Map<Sequence, Sequence>();
  readonly #sampler: Sampler;
  readonly #logits: Float32Array;

  /** Takes the head over, and observes the model from now on. @throws Error for a runner that cannot be observed */
  constructor(head: DraftHead, runner: StepRunner, config: SpeculationConfig, maxBatchTokens: number) {
    if (runner.observe === undefined)
      throw new Error("draft heads: expected a model on the CPU, whose hidden states can be read");
    this.#head = head;
    this.#config = config;
    this.#maxBatchTokens = maxBatchTokens;
    this.#waiting = new WaitingRows(head.blockSize);
    this.#sampler = new Sampler(head.vocabSize);
    this.#logits = new Float32Array(head.vocabSize);
    runner.observe(head.observed, (input, rows) => this.#observe(input, rows));
  }

  /** Rows that the head has not read. */
  get numWaiting(): number {
    return this.#waiting.size;
  }

  async propose(sequences: Iterable<Sequence>): Promise<void> {
    let jobs = this.#jobsOf(sequences);
    if (jobs.length === 0) return;
    jobs = await this.#readObserved(jobs);
    for (let drafted = 1; jobs.length > 0; drafted++) {
      jobs = jobs.filter(({ wanted }) => wanted > drafted);
      if (jobs.length > 0) jobs = await this.#draftNext(jobs, drafted);
    }
  }

  /** Before its blocks are given back. */
  forget(sequence: Sequence): void {
    this.#mirrors.delete(sequence);
    const run = this.#waiting.runBefore(sequence.numComputed, sequence.blockTable);
    this.#waiting.remove(run, sequence.blockTable);
  }

  close(): Promise<void> {
    this.#head.close();
    return Promise.resolve();
  }

  #jobsOf(sequences: Iterable<Sequence>): Job[] {
    const jobs: Job[] = [];
    const { blockSize, firstSpareBlock, numSpareBlocks, maxPositions } = this.#head;
    const numSpare = spareBlocksFor(this.#config, blockSize);
    for (const sequence of sequences) {
      if (sequence.request.promptTable !== undefined || sequence.request.promptPositions !== undefined) continue;
      const wanted = wantedDrafts(sequence, this.#config);
      const isLast = (jobs.length + 1) * numSpare > numSpareBlocks;
      if (isLast) break;
      if (wanted === 0 || sequence.numTokens + wanted > maxPositions) continue;
      const spare = Array.from({ length: numSpare }, (_, i) => firstSpareBlock + jobs.length * numSpare + i);
      const blockTable = Int32Array.from([...sequence.blockTable.subarray(0, sequence.numBlocks), ...spare]);
      const run = this.#waiting.runBefore(sequence.numComputed, blockTable);
      if (run.first === run.end) continue;
      jobs.push({ sequence, mirror: this.#mirrorOf(sequence), wanted, blockTable, token: -1, hidden: NOTHING });
    }
    return jobs;
  }

  #mirrorOf(sequence: Sequence): Sequence {
    const mirror = this.#mirrors.get(sequence) ?? createMirror(sequence, this.#head);
    this.#mirrors.set(sequence, mirror);
    mirror.becomeCopyOf(sequence);
    mirror.topP = sequence.topP;
    return mirror;
  }

  /** The first drafts, from what the model has computed. Gives the jobs that go on. */
  async #readObserved(jobs: readonly Job[]): Promise<Job[]> {
    const shares: HeadShare[] = [];
    const read: Job[] = [];
    let budget = this.#maxBatchTokens;
    for (const job of jobs) {
      const { sequence, blockTable } = job;
      const run = this.#waiting.runBefore(sequence.numComputed, blockTable);
      if (run.end - run.first > budget) break;
      budget -= run.end - run.first;
      shares.push(this.#take(run, blockTable, (position) => sequence.tokens[position] ?? 0));
      read.push(job);
    }
    return this.#run(read, shares, true);
  }

  #draftNext(jobs: readonly Job[], drafted: number): Promise<Job[]> {
    const shares = jobs.map(({ sequence, blockTable, token, hidden }): HeadShare => {
      return { blockTable, first: sequence.numComputed + drafted - 1, tokens: [token], rows: [hidden] };
    });
    return this.#run(jobs, shares, false);
  }

  /** Rows that no longer wait, with the tokens behind them. */
  #take(run: WaitingRun, blockTable: Int32Array, tokenAt: (position: number) => number): HeadShare {
    const positions = Array.from({ length: run.end - run.first }, (_, i) => run.first + i);
    const rows = positions.map(
      (position) => this.#waiting.rowAt(this.#waiting.slotOf(blockTable, position)) ?? NOTHING,
    );
    const tokens = positions.map((position) => tokenAt(position + 1));
    this.#waiting.remove(run, blockTable);
    return { blockTable, first: run.first, tokens, rows };
  }

  async #run(jobs: readonly Job[], shares: readonly HeadShare[], areObserved: boolean): Promise<Job[]> {
    if (jobs.length === 0) return [];
    const { logits, hidden } = await this.#head.run(this.#stepOf(shares, areObserved));
    const { draftVocabSize, hiddenSize } = this.#head;
    return jobs.filter((job, i) => {
      const row = logits.subarray(i * draftVocabSize, (i + 1) * draftVocabSize);
      job.token = this.#sampler.sample(this.#spread(row), job.mirror);
      job.hidden = hidden.slice(i * hiddenSize, (i + 1) * hiddenSize);
      return append(job);
    });
  }

  /** Logits of the whole vocabulary: a head knows its most usual tokens alone. */
  #spread(row: Float32Array): Float32Array {
    const { tokens } = this.#head;
    if (tokens === undefined) return row;
    this.#logits.fill(Number.NEGATIVE_INFINITY);
    for (const [i, token] of tokens.entries()) this.#logits[token] = row[i] ?? 0;
    return this.#logits;
  }

  #stepOf(shares: readonly HeadShare[], areObserved: boolean): HeadStep {
    const tokenIds = shares.flatMap(({ tokens }) => tokens);
    const width = areObserved ? this.#head.observedSize : this.#head.hiddenSize;
    const rows = new Float32Array(tokenIds.length * width);
    const [positions, slots, lastRows]: number[][] = [[], [], []];
    const sequences: StepSequence[] = [];
    for (const { blockTable, first, tokens, rows: own } of shares) {
      const queryStart = positions?.length ?? 0;
      for (const [i, row] of own.entries()) {
        rows.set(row, (queryStart + i) * width);
        positions?.push(first + i);
        slots?.push(this.#waiting.slotOf(blockTable, first + i));
      }
      lastRows?.push(queryStart + tokens.length - 1);
      sequences.push({ queryStart, queryLength: tokens.length, contextLength: first + tokens.length, blockTable });
    }
    return {
      tokenIds: Int32Array.from(tokenIds),
      positions: Int32Array.from(positions ?? []),
      slots: Int32Array.from(slots ?? []),
      sequences,
      rows,
      areObserved,
      logitRows: Int32Array.from(lastRows ?? []),
    };
  }

  /** Keeps the rows of a step of the model, and reads those that no draft will read. */
  async #observe(input: StepInput, rows: Float32Array): Promise<void> {
    if (input.blockCopies !== undefined) this.#head.copyBlocks(input.blockCopies);
    const width = this.#head.observedSize;
    for (const [i, slot] of input.slots.entries())
      this.#waiting.put(slot, input.tokenIds[i] ?? 0, rows.slice(i * width, (i + 1) * width));
    for (const { queryLength, contextLength, blockTable } of input.sequences) {
      const { first } = this.#waiting.runBefore(contextLength, blockTable);
      if (contextLength - first <= MAX_WAITING) continue;
      // The token behind the last row is not known, nor whether those of drafts are right.
      const end = queryLength > MAX_WAITING ? contextLength - 1 : contextLength - queryLength;
      await this.#readThrough({ first, end }, blockTable);
    }
  }

  async #readThrough({ first, end }: WaitingRun, blockTable: Int32Array): Promise<void> {
    const tokenAt = (position: number): number =>
      this.#waiting.tokenAt(this.#waiting.slotOf(blockTable, position)) ?? 0;
    for (let from = first; from < end; ) {
      const run = { first: from, end: Math.min(end, from + this.#maxBatchTokens) };
      await this.#head.run(this.#stepOf([this.#take(run, blockTable, tokenAt)], true));
      from = run.end;
    }
  }
}

const NOTHING = new Float32Array(0);

/** Whether it makes sense to draft on. */
function append({ sequence, mirror, token }: Job): boolean {
  if (token < 0) return false;
  addDraft(sequence, token);
  mirror.append(token);
  return !sequence.endIds.includes(token);
}
