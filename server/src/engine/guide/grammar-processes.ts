/** Grammar processes side by side. Each converts one guide after the other, so that each guide has its full time. */
import type { GrammarAnswer } from "./grammar-messages.ts";
import { GrammarProcess } from "./grammar-process.ts";
import type { Grammar } from "./guide-grammar.ts";

interface Lane {
  process: GrammarProcess | undefined;
  /** Guides that wait or are converted. */
  count: number;
  last: Promise<unknown>;
}

export class GrammarProcesses {
  readonly #limitMs: number;
  readonly #lanes: readonly Lane[];
  #ended: Error | undefined;

  /** `limitMs`: processor time of a guide. */
  constructor(limitMs: number, maxProcesses: number) {
    this.#limitMs = limitMs;
    this.#lanes = Array.from({ length: maxProcesses }, () => ({
      process: undefined,
      count: 0,
      last: Promise.resolve(),
    }));
  }

  /** @throws Error what the library says; GrammarTimeout when it takes too long */
  run(grammar: Grammar): Promise<GrammarAnswer> {
    const lane = this.#lanes.reduce((best, each) => (weight(each) < weight(best) ? each : best));
    lane.count += 1;
    const answer = lane.last.then(() => this.#runIn(lane, grammar));
    lane.last = answer.then(
      () => leave(lane),
      () => leave(lane),
    );
    return answer;
  }

  /** Ends all processes; what waits for them fails with `error`. */
  end(error: Error): void {
    this.#ended = error;
    for (const { process } of this.#lanes) process?.end(error);
  }

  async #runIn(lane: Lane, grammar: Grammar): Promise<GrammarAnswer> {
    if (this.#ended !== undefined) throw this.#ended;
    if (lane.process === undefined || lane.process.hasEnded) lane.process = new GrammarProcess(this.#limitMs);
    return await lane.process.run(grammar);
  }
}

/** A process that does not run yet takes as long to start as some guides take. */
function weight({ process, count }: Lane): number {
  return count + (process === undefined || process.hasEnded ? GUIDES_OF_START : 0);
}

/** Guides that are converted while a process starts. */
const GUIDES_OF_START = 8;

function leave(lane: Lane): void {
  lane.count -= 1;
}
