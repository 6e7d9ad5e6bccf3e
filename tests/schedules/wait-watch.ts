/**
 * Checks that no request waits for ever: the first in line, by arrival and priority, makes progress in every
 * step, or those who run before it was first have as many steps at most as they have tokens left.
 */
import type { Sequence } from "../../server/src/engine/request/sequence.ts";

export class WaitWatch {
  longestWaitSteps = 0;
  #head: Sequence | undefined;
  #progress = "";
  #waited = 0;
  #bound = 0;

  /** Before each step, with all requests in the engine. */
  look(live: readonly Sequence[]): void {
    const [first] = live;
    if (first === undefined) return;
    const head = live.reduce((best, each) => (each.orderKey < best.orderKey ? each : best), first);
    const progress = progressOf(head);
    if (head === this.#head && progress === this.#progress) {
      this.#waited += 1;
      this.longestWaitSteps = Math.max(this.longestWaitSteps, this.#waited);
      if (this.#waited > this.#bound) throw new Error(`the first in line waits for ${this.#waited} steps`);
      return;
    }
    this.#head = head;
    this.#progress = progress;
    this.#waited = 0;
    this.#bound = boundFor(head, live);
  }
}

/** Beams do their work in sequences of their own. */
function progressOf({ numComputed, numTokens, group }: Sequence): string {
  return `${numComputed} ${numTokens} ${group?.isForked === true}`;
}

/** A search that has forked is no sequence to look at: it may take as long as its beams need in turn. */
function boundFor(head: Sequence, live: readonly Sequence[]): number {
  let sum = head.group === undefined ? 1 : head.group.width * head.maxLength * head.maxLength;
  for (const each of live) if (each !== head) sum += (each.group?.width ?? 1) * (each.maxLength + 1);
  return sum;
}
