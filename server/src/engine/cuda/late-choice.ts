/** Chooses the tokens of a pass that was enqueued without, by rules that were not known then. */
import { enqueueChoice } from "../../models/cuda/choice.ts";
import { type CudaPass, numbersAt } from "../../models/cuda/pass.ts";
import { CHOICE_WORDS } from "../../models/cuda/step-layout.ts";
import type { TokenChoice } from "../step-runner.ts";
import type { StepSlot } from "./step-slot.ts";
import { masksOf, packChoices } from "./step-values.ts";

/** In place of the parameters that came with the numbers of the step. */
export function enqueueLateChoice(
  pass: CudaPass,
  choices: readonly (TokenChoice | undefined)[],
  slot: Pick<StepSlot, "upload">,
): void {
  const { numChoices } = pass.batch;
  const values = new Int32Array(CHOICE_WORDS * numChoices);
  packChoices(choices, numChoices, values, 0);
  slot.upload(numbersAt(pass.batch, "choices"), values);
  slot.upload(pass.memory.tokenMasks, ...masksOf(choices));
  enqueueChoice(pass, numChoices);
}
