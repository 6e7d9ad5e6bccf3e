/**
 * Random steps as ordinary traffic makes them: some sequences decode, new prompts come in between, others end. A step is enqueued
 * while the one before it runs. A fault is told with the steps that were under way.
 */

import type { StepInput } from "../../server/src/engine/step-runner.ts";
import { contiguousBlocks, stepOf, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { createRandom, type Random } from "../../tests/support/random.ts";
import type { MeasuredRunner } from "./ranks.ts";
import { GREEDY } from "./steps.ts";

export interface MixedLoad {
  readonly seed: number;
  readonly numSteps: number;
  /** Most sequences at a time. */
  readonly maxSequences: number;
  /** Most tokens of a prompt, and of an answer. */
  readonly maxPrompt: number;
  readonly maxOutput: number;
  /** Most prompts that join a step. */
  readonly maxJoining: number;
}

export interface MixedResult {
  readonly numSteps: number;
  readonly numMixed: number;
  readonly tokensPerSecond: number;
}

interface Live {
  readonly sequence: TestSequence;
  readonly prompt: readonly number[];
  /** Tokens that it still gives. */
  left: number;
  /** Its row of the step before; -1: it was in none. */
  row: number;
  readonly firstBlock: number;
}

/** @throws Error of the step that failed, with what the last steps were */
export async function runMixedSteps(runner: MeasuredRunner, load: MixedLoad): Promise<MixedResult> {
  const random = createRandom(load.seed);
  const places = new Places(runner, load);
  const recent: string[] = [];
  let live: Live[] = [];
  let before: Promise<unknown> | undefined;
  let numMixed = 0;
  let numTokens = 0;
  const startMs = performance.now();
  for (let step = 0; step < load.numSteps; step++) {
    const joining = places.take(random, runner.vocabSize, live.length);
    const all = [...live, ...joining];
    if (all.length === 0) continue;
    recent.push(describe(step, live, joining));
    if (recent.length > 4) recent.shift();
    try {
      const chosen = runner.choose?.(
        inputOf(runner, all),
        all.map(() => GREEDY),
      );
      chosen?.catch(() => undefined);
      await before;
      before = chosen;
    } catch (error) {
      throw new Error(
        `${error instanceof Error ? error.message : error}; seed ${load.seed}, last steps:\n${recent.join("\n")}`,
        {
          cause: error,
        },
      );
    }
    numMixed += live.length > 0 && joining.length > 0 ? 1 : 0;
    numTokens += all.length;
    live = advance(all, places);
  }
  await before;
  const seconds = (performance.now() - startMs) / 1000;
  return { numSteps: load.numSteps, numMixed, tokensPerSecond: numTokens / seconds };
}

/** The prompts of those that are new, and of all others the token that the step before chose. */
function inputOf(runner: MeasuredRunner, all: readonly Live[]): StepInput {
  const input = stepOf(
    runner,
    all.map(({ sequence, prompt, row }) => ({ sequence, tokens: row < 0 ? prompt : [0] })),
  );
  const carried = new Int32Array(input.tokenIds.length).fill(-1);
  for (const [i, { row }] of all.entries()) if (row >= 0) carried[input.sequences[i]?.queryStart ?? 0] = row;
  return { ...input, carried };
}

function advance(all: readonly Live[], places: Places): Live[] {
  for (const [row, one] of all.entries()) {
    one.sequence.numCached += one.row < 0 ? one.prompt.length : 1;
    one.row = row;
    one.left -= 1;
    if (one.left === 0) places.giveBack(one);
  }
  return all.filter(({ left }) => left > 0);
}

function describe(step: number, live: readonly Live[], joining: readonly Live[]): string {
  const contexts = live.map(({ sequence }) => sequence.numCached).join(" ");
  return `  ${step}: ${live.length} decoding (${contexts}), prompts of ${joining.map(({ prompt }) => prompt.length).join(" ")}`;
}

/** The blocks of sequences: as many places as there may be sequences, given out in random order. */
class Places {
  readonly #load: MixedLoad;
  readonly #numBlocks: number;
  readonly #free: number[];

  constructor({ blockSize, numBlocks }: MeasuredRunner, load: MixedLoad) {
    this.#load = load;
    this.#numBlocks = Math.ceil((load.maxPrompt + load.maxOutput + 1) / blockSize);
    const count = Math.min(4 * load.maxSequences, Math.floor(numBlocks / this.#numBlocks));
    if (count < load.maxSequences) throw new Error(`${numBlocks} blocks do not hold ${load.maxSequences} sequences`);
    this.#free = Array.from({ length: count }, (_, i) => i * this.#numBlocks);
  }

  take(random: Random, vocabSize: number, numLive: number): Live[] {
    const { maxJoining, maxSequences, maxPrompt, maxOutput } = this.#load;
    const count = Math.min(random.below(maxJoining + 1), maxSequences - numLive);
    return Array.from({ length: count }, () => {
      const [firstBlock = 0] = this.#free.splice(random.below(this.#free.length), 1);
      const prompt = Array.from({ length: 1 + random.below(maxPrompt) }, () => random.below(vocabSize));
      const sequence = new TestSequence(contiguousBlocks(firstBlock, this.#numBlocks));
      return { sequence, prompt, left: 1 + random.below(maxOutput), row: -1, firstBlock };
    });
  }

  giveBack({ firstBlock }: Live): void {
    this.#free.push(firstBlock);
  }
}
