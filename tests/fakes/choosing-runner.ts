/**
 * A hash runner that chooses tokens as the engine's own sampler would, from the logits that it keeps to itself. With
 * `stepsAhead` one step may be begun behind another, as on a device: it is computed when the first is done, from what its
 * arrays held when it was begun.
 */
import type { GenerateRequest } from "../../server/src/engine/request/generate.ts";
import type { Sequence } from "../../server/src/engine/request/sequence.ts";
import { logProb, topLogProbsOf } from "../../server/src/engine/sample/log-probs.ts";
import { Sampler } from "../../server/src/engine/sample/sampler.ts";
import {
  type ChosenTokens,
  type LateChoice,
  MAX_TOP_LOG_PROBS,
  type RuleTableSizes,
  type StepInput,
  type StepRuleRows,
  type StepRunner,
  type TokenChoice,
  type TopLogProbs,
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
  readonly chooseLate: StepRunner["chooseLate"];
  /** Steps whose choices came late. */
  numLate = 0;
  #isOpen = false;
  /** Rows of counts that were written. */
  numCountRows = 0;
  readonly #sampler: Sampler;
  readonly #tables: Tables = { counts: new Map(), biases: new Map() };
  #numUnderWay = 0;
  #last: Promise<Int32Array> = Promise.resolve(new Int32Array(0));

  constructor(
    options: HashRunnerOptions & {
      readonly stepsAhead?: boolean;
      readonly ruleTables?: RuleTableSizes;
      readonly choosesLate?: boolean;
    } = {},
  ) {
    super(options);
    this.#sampler = new Sampler(this.vocabSize);
    this.stepsAhead = options.stepsAhead ?? false;
    this.ruleTables = options.ruleTables;
    if (options.choosesLate === true) this.chooseLate = (input, choices) => this.#chooseLate(input, choices);
  }

  override run(input: StepInput): Promise<Float32Array> {
    if (this.#numUnderWay > 0 || input.carried !== undefined) throw new Error("run() while a step is under way");
    return super.run(input);
  }

  choose(input: StepInput, choices: readonly (TokenChoice | undefined)[]): Promise<ChosenTokens> {
    return this.#begin(input, Promise.resolve(choices));
  }

  #chooseLate(input: StepInput, early: readonly (TokenChoice | undefined)[]): LateChoice {
    let give: (choices: readonly (TokenChoice | undefined)[]) => void = () => undefined;
    const chosen = this.#begin(
      input,
      new Promise((resolve) => {
        give = resolve;
      }),
    );
    this.#isOpen = true;
    this.numLate += 1;
    return {
      chosen,
      give: (choices) => {
        if (!this.#isOpen) throw new Error("choices were given twice");
        this.#isOpen = false;
        const isSame = choices.length === early.length && choices.every((choice, row) => !choice === !early[row]);
        if (!isSame) throw new Error("other rows have choices than those told of");
        give(choices.map((choice) => choice && { ...choice, mask: choice.mask?.slice() }));
      },
    };
  }

  #begin(input: StepInput, choices: Promise<readonly (TokenChoice | undefined)[]>): Promise<ChosenTokens> {
    if (this.#isOpen) throw new Error("a step is begun before the choices of the one ahead were given");
    if (this.#numUnderWay >= (this.stepsAhead ? 2 : 1)) throw new Error("too many steps are under way");
    this.numAhead += this.#numUnderWay;
    this.#numUnderWay += 1;
    const chosen = this.#chooseBehind(this.#last, copyOf(input), choices);
    this.#last = chosen.then(({ tokens }) => tokens);
    this.#last.catch(() => undefined);
    return chosen;
  }

  #sample(row: Float32Array, choice: TokenChoice): number {
    const { seedLow, seedHigh, topP, index, rules, mask } = choice;
    const badWords = choice.banned.map((id) => Int32Array.of(id));
    const occurrences = rules === undefined ? undefined : this.#tables.counts.get(rules.countRow);
    const logitBias = rules === undefined ? undefined : this.#tables.biases.get(rules.biasRow);
    const request = { ...choice, ...rules, ...PLAIN, badWords, logitBias } as unknown as GenerateRequest;
    const tokens = { tokens: new Int32Array(1), numTokens: 1 };
    const guide = mask && { mask };
    const sequence = { request, seedLow, seedHigh, topP, numOutput: index, occurrences, guide, ...tokens };
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
    given: Promise<readonly (TokenChoice | undefined)[]>,
  ): Promise<ChosenTokens> {
    const before = await last;
    const choices = await given;
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
    const logProbs = Float32Array.from(tokens, (token, row) => (token < 0 ? 0 : logProb(rowOf(row), token)));
    const top = topOfChoices(choices, rowOf);
    return { tokens: Int32Array.from(tokens), logProbs, top, logits: Float32Array.from(seen) };
  }
}

function topOfChoices(
  choices: readonly (TokenChoice | undefined)[],
  rowOf: (row: number) => Float32Array,
): TopLogProbs | undefined {
  if (!choices.some((choice) => choice !== undefined && choice.numTop > 0)) return undefined;
  const size = choices.length * MAX_TOP_LOG_PROBS;
  const top = { ids: new Int32Array(size), logProbs: new Float32Array(size) };
  for (const [row, choice] of choices.entries()) {
    topLogProbsOf(rowOf(row), choice?.numTop ?? 0, top.ids, top.logProbs, row * MAX_TOP_LOG_PROBS);
  }
  return top;
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
