/** How many sequences and cache blocks a request counts for while it runs, its beams included. Pure. */
import { peakBlocks, type WindowRules } from "../kv/window-blocks.ts";
import type { Sequence } from "../request/sequence.ts";

type Grouped = Pick<Sequence, "group">;

/** Sequences that it stands for: a beam search takes its places before it forks. */
export function lanesOf({ group }: Grouped): number {
  return group === undefined || group.isForked ? 1 : group.width;
}

/** Beams share what they have computed and keep all of it. */
export function rulesOf({ group }: Grouped, rules: WindowRules): WindowRules {
  return group === undefined ? rules : { ...rules, window: undefined };
}

/** Its last token is never computed. Beams are counted as if they shared nothing. */
export function blocksToEnd(sequence: Grouped & Pick<Sequence, "maxLength">, rules: WindowRules): number {
  return lanesOf(sequence) * peakBlocks(sequence.maxLength - 1, rulesOf(sequence, rules));
}
