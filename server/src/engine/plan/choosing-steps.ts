/**
 * Begins steps whose tokens the runner chooses. A step is planned before the tokens of the one ahead are known: rules that
 * need them reach the runner while it computes.
 */
import { guidesReady, lateChoices } from "../sample/late-choices.ts";
import { withRuleRows } from "../sample/rule-rows.ts";
import { givesOneRow, type StepChoices, tokenChoices } from "../sample/token-choices.ts";
import type { StepInput, StepRunner } from "../step-runner.ts";
import type { PartlyChosen } from "./sequence-rows.ts";
import type { StepPlan } from "./step-plan.ts";
import type { StepsInFlight } from "./steps-in-flight.ts";

export interface BegunStep {
  /** It was added to the steps in flight; otherwise its rows are still to be taken. */
  readonly isUnderWay: boolean;
  /** Undefined: the runner chooses nothing. */
  readonly partly?: PartlyChosen;
}

const SEEN: BegunStep = { isUnderWay: false };

export class ChoosingSteps {
  readonly #runner: StepRunner;
  readonly #inFlight: StepsInFlight;
  /** Hands out the tokens of the oldest step in flight. */
  readonly #settle: () => Promise<void>;

  constructor(runner: StepRunner, inFlight: StepsInFlight, settle: () => Promise<void>) {
    this.#runner = runner;
    this.#inFlight = inFlight;
    this.#settle = settle;
  }

  /** @param promptRows how many rows are wanted of each sequence's prompt */
  async begin(plan: StepPlan, input: StepInput, promptRows: readonly number[], startNs: number): Promise<BegunStep> {
    const { choices, chosenFor, late } = tokenChoices(plan, promptRows);
    const isPlain = plan.sequences.every(givesOneRow);
    const hasRoom = choices.length <= (this.#runner.maxChoices ?? choices.length);
    if (!hasRoom || !(isPlain || choices.some(Boolean)) || this.#runner.choose === undefined) return SEEN;
    const ruled = withRuleRows(input, chosenFor);
    if (isPlain && late.size > 0) {
      await this.#chooseLate(plan, ruled, { choices, late }, startNs);
      return { isUnderWay: true };
    }
    // Nothing is under way where a sequence gives several rows, so that all tokens are known.
    await guidesReady(late.values());
    const chosen = this.#runner.choose(ruled, lateChoices(choices, late, this.#runner.vocabSize));
    if (!isPlain) return { isUnderWay: false, partly: { choices, chosen: await chosen } };
    this.#inFlight.add(plan, choices, chosen, startNs);
    return { isUnderWay: true };
  }

  /** The device computes the step while tokens of the one before are handed out and guides prepare what may follow. */
  async #chooseLate(
    plan: StepPlan,
    input: StepInput,
    { choices, late }: Pick<StepChoices, "choices" | "late">,
    startNs: number,
  ): Promise<void> {
    const step = this.#runner.chooseLate?.(input, choices);
    if (step === undefined) throw new Error("a late choice of a runner that has none");
    this.#inFlight.add(plan, choices, step.chosen, startNs);
    try {
      while (this.#inFlight.count > 1) await this.#settle();
      await guidesReady(late.values());
    } finally {
      step.give(lateChoices(choices, late, this.#runner.vocabSize)); // whatever happened: the device waits for it
    }
  }
}
