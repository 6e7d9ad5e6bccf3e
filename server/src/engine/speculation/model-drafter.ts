/**
 * Drafts by a smaller model with the same vocabulary and a cache of its own. It samples with each sequence's own
 * parameters and random numbers, as the target model will, so the two agree where their distributions do. Drafts change
 * the speed of an answer, not its text.
 */
import { invalidArgument } from "../../core/server-error.ts";
import { BlockPool } from "../kv/block-pool.ts";
import { StepBatch } from "../plan/step-batch.ts";
import type { Sequence } from "../request/sequence.ts";
import { Sampler } from "../sample/sampler.ts";
import type { StepRunner } from "../step-runner.ts";
import { type Drafter, wantDrafts, wantedDrafts } from "./drafter.ts";
import { addDraft, createMirror } from "./mirror.ts";
import type { SpeculationConfig } from "./speculation-config.ts";

/** A sequence as the draft model sees it: its tokens, the drafts, and their blocks in the draft cache. */
interface Shadow {
  readonly mirror: Sequence;
  /** Leading tokens that were the sequence's own when they were last copied. */
  numOwn: number;
}

interface Job {
  readonly sequence: Sequence;
  readonly shadow: Shadow;
  readonly wanted: number;
}

export class ModelDrafter implements Drafter {
  readonly #runner: StepRunner;
  readonly #config: SpeculationConfig;
  readonly #maxBatchTokens: number;
  readonly #pool: BlockPool;
  readonly #batch: StepBatch;
  readonly #sampler: Sampler;
  readonly #shadows = new Map<Sequence, Shadow>();

  /** Takes the runner over. */
  constructor(runner: StepRunner, config: SpeculationConfig, maxBatchTokens: number) {
    // Drafts that were wrong would stay in the state.
    if (runner.numStates !== undefined)
      throw invalidArgument("draft model: expected one without recurrent layers, whose states cannot be taken back");
    this.#runner = runner;
    this.#config = config;
    this.#maxBatchTokens = maxBatchTokens;
    this.#pool = new BlockPool(runner.numBlocks);
    this.#batch = new StepBatch(runner);
    this.#sampler = new Sampler(runner.vocabSize);
  }

  /** Blocks of the small cache that no sequence holds. */
  get numFreeBlocks(): number {
    return this.#pool.numFree;
  }

  holdsBack(sequences: Iterable<Sequence>): boolean {
    return wantDrafts(sequences, this.#config);
  }

  async propose(sequences: Iterable<Sequence>): Promise<void> {
    let jobs = this.#jobsOf(sequences);
    for (let i = 0; jobs.length > 0; i++) {
      jobs = await this.#draftNext(jobs);
      jobs = jobs.filter(({ wanted }) => wanted > i + 1);
    }
  }

  forget(sequence: Sequence): void {
    const mirror = this.#shadows.get(sequence)?.mirror;
    if (mirror === undefined) return;
    for (const block of mirror.blockTable.subarray(0, mirror.numBlocks)) this.#pool.release(block);
    this.#shadows.delete(sequence);
  }

  close(): Promise<void> {
    return this.#runner.close();
  }

  #jobsOf(sequences: Iterable<Sequence>): Job[] {
    const wanting: { sequence: Sequence; wanted: number }[] = [];
    for (const sequence of sequences) {
      // Rows of a prompt table are made for the large model, and positions for those that turn as it does.
      if (sequence.request.promptTable !== undefined || sequence.request.promptPositions !== undefined) continue;
      const wanted = wantedDrafts(sequence, this.#config);
      if (wanted > 0 && sequence.numTokens + wanted <= this.#runner.maxPositions) wanting.push({ sequence, wanted });
    }
    const busy = new Set(wanting.map(({ sequence }) => sequence));
    return wanting.flatMap(({ sequence, wanted }) => {
      const shadow = this.#shadowOf(sequence);
      return this.#reserve(shadow.mirror, sequence.numTokens + wanted, busy) ? [{ sequence, shadow, wanted }] : [];
    });
  }

  /** Brought up to date: what the small cache holds of other tokens than the sequence's does not count as computed. */
  #shadowOf(sequence: Sequence): Shadow {
    const shadow = this.#shadows.get(sequence) ?? { mirror: createMirror(sequence, this.#runner), numOwn: 0 };
    this.#shadows.set(sequence, shadow);
    const { mirror } = shadow;
    const end = Math.min(mirror.numComputed, sequence.numTokens - 1);
    let numRight = Math.min(shadow.numOwn, end);
    while (numRight < end && mirror.tokens[numRight] === sequence.tokens[numRight]) numRight += 1;
    mirror.becomeCopyOf(sequence);
    mirror.topP = sequence.topP;
    mirror.numComputed = numRight;
    shadow.numOwn = sequence.numTokens;
    return shadow;
  }

  /** Holds blocks for that many tokens; sequences that draft nothing now lose theirs first. */
  #reserve(mirror: Sequence, numTokens: number, busy: ReadonlySet<Sequence>): boolean {
    const missing = Math.ceil(numTokens / this.#runner.blockSize) - mirror.numBlocks;
    for (const other of this.#shadows.keys()) {
      if (missing <= this.#pool.numFree) break;
      if (!busy.has(other)) this.forget(other);
    }
    if (missing > this.#pool.numFree) return false;
    for (let i = 0; i < missing; i++) {
      mirror.blockTable[mirror.numBlocks] = this.#pool.allocate();
      mirror.numBlocks += 1;
    }
    return true;
  }

  /** One step of the small model; gives the jobs whose sequences got a draft and may get another. */
  async #draftNext(jobs: readonly Job[]): Promise<Job[]> {
    const planned = this.#fitBudget(jobs);
    const sequences = planned.map(({ job }) => job.shadow.mirror);
    const queryLengths = planned.map(({ length }) => length);
    const logits = await this.#runner.run(
      this.#batch.fill({ sequences, queryLengths, blockCopies: [], stateCopies: [] }),
    );
    const drafted: Job[] = [];
    let row = 0;
    for (const { job, length } of planned) {
      const { mirror } = job.shadow;
      mirror.numComputed += length;
      if (mirror.numComputed < mirror.numTokens) continue; // a long prompt: the rest comes with the next steps
      const { vocabSize } = this.#runner;
      const token = this.#sampler.sample(logits.subarray(row * vocabSize, (row + 1) * vocabSize), mirror);
      row += 1;
      if (this.#append(job, token)) drafted.push(job);
    }
    return drafted;
  }

  #fitBudget(jobs: readonly Job[]): { readonly job: Job; readonly length: number }[] {
    let budget = this.#maxBatchTokens;
    const planned: { readonly job: Job; readonly length: number }[] = [];
    for (const job of jobs) {
      const { mirror } = job.shadow;
      const length = Math.min(budget, mirror.numTokens - mirror.numComputed);
      if (length === 0) break;
      budget -= length;
      planned.push({ job, length });
    }
    return planned;
  }

  /** Whether it makes sense to draft on. */
  #append({ sequence, shadow: { mirror } }: Job, token: number): boolean {
    if (token < 0) return false;
    addDraft(sequence, token);
    mirror.append(token);
    return !sequence.endIds.includes(token);
  }
}
