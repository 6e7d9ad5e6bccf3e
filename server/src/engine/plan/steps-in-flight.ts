/**
 * Steps that the device runs while the engine goes on, and the delivery of their tokens. A sequence that has ended or
 * released its blocks meanwhile takes only the tokens that are still its own.
 */
import type { Sequence } from "../request/sequence.ts";
import type { ChosenTokens } from "../step-runner.ts";
import type { StepPlan } from "./step-plan.ts";
import type { StepPlanner } from "./step-planner.ts";

/** The part of a sequence in a step, as it was when the step began. */
interface Share {
  readonly sequence: Sequence;
  /** Its first token of the step, and the end. */
  readonly first: number;
  readonly end: number;
  readonly numReleases: number;
  /** The step reaches the end of its tokens and chooses the next. */
  readonly isChoosing: boolean;
}

interface StartedStep {
  readonly shares: readonly Share[];
  readonly chosen: Promise<ChosenTokens>;
  readonly startNs: number;
}

/** Called for each token of a sequence that is still in the engine. */
export type TakeToken = (sequence: Sequence, token: number, logProb: number, nowNs: number) => void;

export class StepsInFlight {
  readonly #planner: Pick<StepPlanner, "share">;
  #steps: StartedStep[] = [];
  #settledNs = 0;

  constructor(planner: Pick<StepPlanner, "share">) {
    this.#planner = planner;
  }

  get count(): number {
    return this.#steps.length;
  }

  /** The sequences go on from behind the step at once. */
  add(plan: Pick<StepPlan, "sequences" | "queryLengths">, chosen: Promise<ChosenTokens>, startNs: number): void {
    chosen.catch(() => undefined); // waited for later
    let row = 0;
    const shares = plan.sequences.map((sequence, i): Share => {
      const { numComputed: first, numReleases } = sequence;
      const end = first + (plan.queryLengths[i] ?? 0);
      const isChoosing = end === sequence.numTokens + sequence.numPending;
      sequence.numComputed = end;
      if (isChoosing) {
        sequence.pendingRow = row++;
        sequence.numPending += 1;
      }
      return { sequence, first, end, numReleases, isChoosing };
    });
    this.#steps.push({ shares, chosen, startNs });
  }

  /** Waits for the oldest and hands its tokens out. Gives how long it took, from the end of the one before it on. */
  async settle(nowNs: () => number, take: TakeToken): Promise<number> {
    const step = this.#steps[0];
    if (step === undefined) return 0;
    const chosen = await step.chosen;
    this.#steps.shift();
    const now = nowNs();
    this.#handOut(step.shares, chosen, now, take);
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

  #handOut(shares: readonly Share[], { tokens, logProbs }: ChosenTokens, now: number, take: TakeToken): void {
    let row = 0;
    for (const { sequence, first, end, numReleases, isChoosing } of shares) {
      const isThere = !sequence.isOver && !sequence.cancelled;
      if (isThere && sequence.numReleases === numReleases) this.#planner.share(sequence, first, end);
      if (!isChoosing) continue;
      const at = row++;
      sequence.numPending -= 1;
      if (isThere) take(sequence, tokens[at] ?? -1, logProbs[at] ?? 0, now);
    }
  }
}
