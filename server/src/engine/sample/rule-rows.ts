/**
 * Hands the rows of a runner's rule tables to sequences: token counts for penalties, biases. A sequence without a row is chosen for
 * by the engine. It knows no device.
 */
import type { Sequence } from "../request/sequence.ts";
import type { RuleTableSizes, StepInput, StepRuleRows } from "../step-runner.ts";

export class RuleRows {
  readonly #freeCounts: number[];
  readonly #freeBiases: number[];

  constructor({ numCountRows, numBiasRows }: RuleTableSizes = { numCountRows: 0, numBiasRows: 0 }) {
    this.#freeCounts = Array.from({ length: numCountRows }, (_, row) => row);
    this.#freeBiases = Array.from({ length: numBiasRows }, (_, row) => row);
  }

  /** Gives the sequence the rows that its rules need, all or none. */
  hold(sequence: Sequence): void {
    const { occurrences, request } = sequence;
    const [needsCounts, needsBias] = [occurrences !== undefined, request.logitBias !== undefined];
    if (sequence.rules !== undefined || !(needsCounts || needsBias)) return;
    if ((needsCounts && this.#freeCounts.length === 0) || (needsBias && this.#freeBiases.length === 0)) return;
    const countRow = needsCounts ? (this.#freeCounts.pop() ?? -1) : -1;
    const biasRow = needsBias ? (this.#freeBiases.pop() ?? -1) : -1;
    sequence.rules = { countRow, biasRow, numCounted: undefined, isBiasWritten: false };
  }

  /** Steps under way may still read them: whoever gets them next writes them in a later step. */
  release(sequence: Sequence): void {
    const { rules } = sequence;
    if (rules === undefined) return;
    if (rules.countRow >= 0) this.#freeCounts.push(rules.countRow);
    if (rules.biasRow >= 0) this.#freeBiases.push(rules.biasRow);
    sequence.rules = undefined;
  }
}

/**
 * The step with the rows to write before it chooses a token for each of these sequences; notes that they are written. A row
 * of counts goes on by itself; it is written again when the engine chose a token meanwhile.
 */
export function withRuleRows(input: StepInput, chosenFor: readonly Sequence[]): StepInput {
  const counts: StepRuleRows["counts"][number][] = [];
  const biases: StepRuleRows["biases"][number][] = [];
  for (const { rules, occurrences, request, numTokens, numPending } of chosenFor) {
    if (rules === undefined) continue;
    if (occurrences !== undefined) {
      if (rules.numCounted !== numTokens + numPending) counts.push({ row: rules.countRow, occurrences });
      rules.numCounted = numTokens + numPending + 1;
    }
    if (request.logitBias !== undefined && !rules.isBiasWritten) {
      biases.push({ row: rules.biasRow, values: request.logitBias });
      rules.isBiasWritten = true;
    }
  }
  return counts.length === 0 && biases.length === 0 ? input : { ...input, ruleRows: { counts, biases } };
}
