/**
 * Choices whose rules are known only with the token before: guides, words of several tokens, repeated runs, a decaying top-p.
 * The device computes the step meanwhile. Pure.
 */
import type { Sequence } from "../request/sequence.ts";
import type { TokenChoice } from "../step-runner.ts";
import { eachBanned } from "./logits-processors.ts";
import { needsMask } from "./token-choices.ts";

type Choices = readonly (TokenChoice | undefined)[];

/** @param late sequences by row, whose tokens are all known now and whose guides are ready */
export function lateChoices(choices: Choices, late: ReadonlyMap<number, Sequence>, vocabSize: number): Choices {
  if (late.size === 0) return choices;
  const given = [...choices];
  for (const [row, sequence] of late) {
    const choice = given[row];
    if (choice === undefined || sequence.isOver) continue;
    const mask = needsMask(sequence) ? maskOf(sequence, vocabSize) : undefined;
    given[row] = { ...choice, topP: sequence.topP, mask };
  }
  return given;
}

/** Waits until each knows what may come next. */
export async function guidesReady(sequences: Iterable<Sequence>): Promise<void> {
  for (const { guide, isOver } of sequences) if (!isOver && guide?.pending !== undefined) await guide.pending;
}

/** The guide's own where nothing else is forbidden. */
function maskOf(sequence: Sequence, vocabSize: number): Int32Array {
  let own: Int32Array | undefined;
  eachBanned(sequence, (id) => {
    if (id < 0 || id >= vocabSize) return;
    own ??= sequence.guide?.mask.slice() ?? new Int32Array(Math.ceil(vocabSize / 32)).fill(-1);
    own[id >> 5] = (own[id >> 5] ?? 0) & ~(1 << (id & 31));
  });
  return own ?? sequence.guide?.mask ?? new Int32Array(Math.ceil(vocabSize / 32)).fill(-1);
}
