/**
 * A hash runner that chooses tokens as the engine's own sampler would, from the logits that it keeps to itself. With
 * `stepsAhead` one step may be begun behind another, as on a device: it is computed when the first is done, from what its
 * arrays held when it was begun.
 */
import type { GenerateRequest } from "../../server/src/engine/request/generate.ts";
import type { Sequence } from "../../server/src/engine/request/sequence.ts";
import { Sampler } from "../../server/src/engine/sample/sampler.ts";
import type {
  ChosenTokens,
  RuleTableSizes,
  StepInput,
  StepRuleRows,
  StepRunner,
  TokenChoice,
} from "../../server/src/engine/step-runner.ts";
import { HashRunner, type HashRunnerOptions } from "./hash-runner.ts";

const PLAIN = { noRepeatNgramSize: 0, minTokens: 0 };

/** Rows of rule tables, as a device has them. */
interface Tables {
  readonly counts: Map<number, Map<number, number>>;
  readonly biases: Map<number, Float32Array>;
}

export class ChoosingRunner extends HashRunner implements StepRunner {
  readonly stepsAhead: boolean;
  numChosen = 0;
  /** Rows that were not chosen for. */
  numSeen = 0;
  /** Steps that were begun while another ran. */
  numAhead = 0;
  readonly ruleTables: RuleTableSizes | undefined;
  /** Rows of counts that were written. */
  numCountRows = 0;
  readonly #sampler: Sampler;
  readonly #tables: Tables = { counts: new Map(), biases: new Map() };
  #numUnderWay = 0;
  #last: Promise<Int32Array> = Promise.resolve(new Int32Array(0));

  constructor(
    options: HashRunnerOptions & { readonly stepsAhead?: boolean; readonly ruleTables?: RuleTableSizes } = {},
  ) {
    super(options);
    this.#sampler = new Sampler(this.vocabSize);
    this.stepsAhead = options.stepsAhead ?? false;
    this.ruleTables = options.ruleTables;
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
    const { seedLow, seedHigh, topP, index, rules } = choice;
    const badWords = choice.banned.map((id) => Int32Array.of(id));
    const occurrences = rules === undefined ? undefined : this.#tables.counts.get(rules.countRow);
    const logitBias = rules === undefined ? undefined : this.#tables.biases.get(rules.biasRow);
    const request = { ...choice, ...rules, ...PLAIN, badWords, logitBias } as unknown as GenerateRequest;
    const tokens = { tokens: new Int32Array(1), numTokens: 1 };
    const sequence = { request, seedLow, seedHigh, topP, numOutput: index, occurrences, ...tokens };
    const token = this.#sampler.sample(row, sequence as unknown as Sequence);
    occurrences?.set(token, (occurrences.get(token) ?? 0) + 1);
    return token;
  }

  #write({ counts, biases }: StepRuleRows): void {
    this.numCountRows += counts.length;
    for (const { row, occurrences } of counts) this.#tables.counts.set(row, new Map(occurrences));
    for (const { row, values } of biases) this.#tables.biases.set(row, values);
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
    if (input.ruleRows !== undefined) this.#write(input.ruleRows);
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
    ...(input.ruleRows === undefined ? {} : { ruleRows: copyOfRules(input.ruleRows) }),
    ...(input.carried === undefined ? {} : { carried: input.carried.slice() }),
    sequences: input.sequences.map((each) => ({ ...each, blockTable: each.blockTable.slice() })),
  };
}

/** As they are when the step begins: the engine counts on meanwhile. */
function copyOfRules({ counts, biases }: StepRuleRows): StepRuleRows {
  return { counts: counts.map(({ row, occurrences }) => ({ row, occurrences: new Map(occurrences) })), biases };
}
