/**
 * A hash runner that chooses tokens as the engine's own sampler would, from the logits that it keeps to itself. With
 * `stepsAhead` one step may be begun behind another, as on a device: it is computed when the first is done, from what its
 * arrays held when it was begun.
 */
import type { GenerateRequest } from "../../server/src/engine/request/generate.ts";
import type { Sequence } from "../../server/src/engine/request/sequence.ts";
import { Sampler } from "../../server/src/engine/sample/sampler.ts";
import type { ChosenTokens, StepInput, StepRunner, TokenChoice } from "../../server/src/engine/step-runner.ts";
import { HashRunner, type HashRunnerOptions } from "./hash-runner.ts";

const PLAIN = { noRepeatNgramSize: 0, minTokens: 0 };

export class ChoosingRunner extends HashRunner implements StepRunner {
  readonly stepsAhead: boolean;
  numChosen = 0;
  /** Rows that were not chosen for. */
  numSeen = 0;
  /** Steps that were begun while another ran. */
  numAhead = 0;
  readonly #sampler: Sampler;
  #numUnderWay = 0;
  #last: Promise<Int32Array> = Promise.resolve(new Int32Array(0));

  constructor(options: HashRunnerOptions & { readonly stepsAhead?: boolean } = {}) {
    super(options);
    this.#sampler = new Sampler(this.vocabSize);
    this.stepsAhead = options.stepsAhead ?? false;
  }

  override run(input: StepInput): Promise<Float32Array> {
    if (this.#numUnderWay > 0 || input.carried !== undefined) throw new Error("run() while a step is under way");
    return super.run(input);
  }

  choose(input: StepInput, choices: readonly (TokenChoice | undefined)[]): Promise<ChosenTokens> {
    if (this.#numUnderWay >= (this.stepsAhead ? 2 : 1)) throw new Error("too many steps are under way");
    this.numAhead += this.#numUnderWay;
    this.#numUnderWay += 1;
    const chosen = this.#chooseBehind(this.#last, copyOf(input), choices);
    this.#last = chosen.then(({ tokens }) => tokens);
    this.#last.catch(() => undefined);
    return chosen;
  }

  #sample(row: Float32Array, choice: TokenChoice): number {
    const { seedLow, seedHigh, topP, index } = choice;
    const badWords = choice.banned.map((id) => Int32Array.of(id));
    const request = { ...choice, ...PLAIN, badWords } as unknown as GenerateRequest;
    const tokens = { tokens: new Int32Array(1), numTokens: 1 };
    const sequence = { request, seedLow, seedHigh, topP, numOutput: index, ...tokens } as unknown as Sequence;
    return this.#sampler.sample(row, sequence);
  }

  async #chooseBehind(
    last: Promise<Int32Array>,
    input: StepInput,
    choices: readonly (TokenChoice | undefined)[],
  ): Promise<ChosenTokens> {
    const before = await last;
    // Longer than the engine takes to come back with another step.
    if (this.stepsAhead)
      for (let turn = 0; turn < 3; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
    input.carried?.forEach((row, i) => {
      if (row >= before.length) throw new Error(`token ${i} is carried from row ${row} of ${before.length}`);
      if (row >= 0 && (before[row] ?? -1) < 0)
        throw new Error(`token ${i} is carried from row ${row}: not chosen there`);
      if (row >= 0) input.tokenIds[i] = before[row] ?? 0;
    });
    const logits = await super.run(input);
    const rowOf = (row: number): Float32Array => logits.subarray(row * this.vocabSize, (row + 1) * this.vocabSize);
    const tokens = choices.map((choice, row) => (choice === undefined ? -1 : this.#sample(rowOf(row), choice)));
    const seen = choices.flatMap((choice, row) => (choice === undefined ? [...rowOf(row)] : []));
    const numSeen = seen.length / this.vocabSize;
    this.numSeen += numSeen;
    this.numChosen += choices.length - numSeen;
    this.#numUnderWay -= 1;
    const logProbs = new Float32Array(tokens.length).fill(-1);
    return { tokens: Int32Array.from(tokens), logProbs, logits: Float32Array.from(seen) };
  }
}

function copyOf(input: StepInput): StepInput {
  return {
    ...input,
    tokenIds: input.tokenIds.slice(),
    positions: input.positions.slice(),
    slots: input.slots.slice(),
    logitRows: input.logitRows.slice(),
    ...(input.carried === undefined ? {} : { carried: input.carried.slice() }),
    sequences: input.sequences.map((each) => ({ ...each, blockTable: each.blockTable.slice() })),
  };
}
