/**
 * Drafts of the tokens that a guide forces (jump-forward): the fixed text of a grammar, such as the name of a field. They
 * are verified under the guide's masks like any draft, so that the output is the same with and without them.
 */
import type { Sequence } from "../request/sequence.ts";
import type { Drafter } from "./drafter.ts";

export class ForcedDrafter implements Drafter {
  async propose(sequences: Iterable<Sequence>): Promise<void> {
    const open = [...sequences].filter((each) => isOpen(each) && isDecoding(each));
    for (const { guide } of open) if (guide?.pending !== undefined) await guide.pending;
    for (const sequence of open) propose(sequence);
  }
}

function isOpen({ guide, group, cancelled, isOver, request }: Sequence): boolean {
  return guide !== undefined && group === undefined && !cancelled && !isOver && request.maxDraftTokens !== 0;
}

function isDecoding({ numComputed, numTokens, numDrafts, isAwaited }: Sequence): boolean {
  return numComputed > 0 && numComputed === numTokens - 1 && numDrafts === 0 && !isAwaited;
}

function propose(sequence: Sequence): void {
  const { guide, numTokens, maxLength, pace } = sequence;
  const forced = guide?.forced;
  if (forced === undefined) return;
  const count = pace.next(Math.min(forced.length, maxLength - 1 - numTokens));
  if (count <= 0) return;
  sequence.reserve(count);
  sequence.tokens.set(forced.subarray(0, count), numTokens);
  sequence.numDrafts = count;
}
