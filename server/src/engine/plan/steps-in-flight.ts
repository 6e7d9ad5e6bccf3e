/**
 * Steps that the device runs while the engine goes on, and the delivery of their tokens. A sequence that has ended or
 * released its blocks meanwhile takes only the tokens that are still its own.
 */
import type { Sequence } from "../request/sequence.ts";
import type { ChosenTokens, TokenChoice } from "../step-runner.ts";
import type { StepPlan } from "./step-plan.ts";
import type { StepPlanner } from "./step-planner.ts";

/** The part of a sequence in a step, as it was when the step began. */
interface Share {
  readonly sequence: Sequence;
  /** Its first token of the step, and the end. */
  readonly first: number;
  readonly end: number;
  readonly numReleases: number;
  /** The step reaches the end of its tokens and gives the next. */
  readonly isLast: boolean;
  /** The next step computed its token before it was known. */
  readonly isPending: boolean;
}

interface StartedStep {
  readonly shares: readonly Share[];
  readonly choices: readonly (TokenChoice | undefined)[];
  readonly chosen: Promise<ChosenTokens>;
  readonly startNs: number;
}

/** Take the result of a step for a sequence that is still in the engine. */
export interface StepTakers {
  /** Row `at` of what was chosen. */
  token(sequence: Sequence, chosen: ChosenTokens, at: number, nowNs: number): void;
  /** Its logits, [vocabSize], for a sequence without a choice. */
  row(sequence: Sequence, row: Float32Array, nowNs: number): void;
}

export class StepsInFlight {
  readonly #planner: Pick<StepPlanner, "share">;
  readonly #vocabSize: number;
  readonly #isFree: (sequence: Sequence) => boolean;
  #steps: StartedStep[] = [];
  #settledNs = 0;

  /** @param isFree whether no token of the sequence changes how its next one is chosen */
  constructor(planner: Pick<StepPlanner, "share">, vocabSize: number, isFree: (sequence: Sequence) => boolean) {
    this.#planner = planner;
    this.#vocabSize = vocabSize;
    this.#isFree = isFree;
  }

  get count(): number {
    return this.#steps.length;
  }

  /**
   * Free sequences with a choice go on from behind the step at once; the others wait for their token.
   * @param choices one for each sequence that the step reaches the end of
   */
  add(
    plan: Pick<StepPlan, "sequences" | "queryLengths">,
    choices: readonly (TokenChoice | undefined)[],
    chosen: Promise<ChosenTokens>,
    startNs: number,
  ): void {
    chosen.catch(() => undefined); // waited for later
    let row = 0;
    const shares = plan.sequences.map((sequence, i): Share => {
      const { numComputed: first, numReleases } = sequence;
      const end = first + (plan.queryLengths[i] ?? 0);
      const isLast = end === sequence.numTokens + sequence.numPending;
      const isPending = isLast && choices[row] !== undefined && this.#isFree(sequence);
      sequence.numComputed = end;
      if (isPending) {
        sequence.pendingRow = row;
        sequence.numPending += 1;
      } else if (isLast) {
        sequence.isAwaited = true;
      }
      if (isLast) row += 1;
      return { sequence, first, end, numReleases, isLast, isPending };
    });
    this.#steps.push({ shares, choices, chosen, startNs });
  }

  /** Waits for the oldest and hands its results out. Gives how long it took, from the end of the one before it on. */
  async settle(nowNs: () => number, takers: StepTakers): Promise<number> {
    const step = this.#steps[0];
    if (step === undefined) return 0;
    const chosen = await step.chosen;
    this.#steps.shift();
    const now = nowNs();
    await this.#handOut(step, chosen, now, takers);
    const startNs = Math.max(step.startNs, this.#settledNs);
    this.#settledNs = now;
    return now - startNs;
  }

  /** Waits for all, whatever became of them. */
  async drop(): Promise<void> {
    const steps = this.#steps;
    this.#steps = [];
    for (const { chosen } of steps) await chosen.catch(() => undefined);
  }

  /** Chosen tokens first: a guide that is late keeps nobody else's. */
  async #handOut(
    { shares, choices }: StartedStep,
    chosen: ChosenTokens,
    now: number,
    takers: StepTakers,
  ): Promise<void> {
    const seen: Sequence[] = [];
    let row = 0;
    for (const share of shares) {
      this.#shareBlocks(share);
      if (!share.isLast) continue;
      const { sequence, isPending } = share;
      const at = row++;
      if (isPending) sequence.numPending -= 1;
      else sequence.isAwaited = false;
      if (choices[at] === undefined) seen.push(sequence);
      else if (isThere(sequence)) takers.token(sequence, chosen, at, now);
    }
    for (const [i, sequence] of seen.entries()) {
      if (sequence.guide?.pending !== undefined) await sequence.guide.pending;
      const from = i * this.#vocabSize;
      if (isThere(sequence)) takers.row(sequence, chosen.logits.subarray(from, from + this.#vocabSize), now);
    }
  }

  #shareBlocks({ sequence, first, end, numReleases }: Share): void {
    if (isThere(sequence) && sequence.numReleases === numReleases) this.#planner.share(sequence, first, end);
  }
}

function isThere({ isOver, cancelled }: Sequence): boolean {
  return !isOver && !cancelled;
}
