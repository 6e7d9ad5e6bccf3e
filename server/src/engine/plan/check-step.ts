/** Checks a step before any device sees it: native code aborts on a bad index. Pure; it knows no device. */
import { type EncoderLimits, encoderRefusal } from "../request/encoder-input.ts";
import type { StepInput, StepSequence } from "../step-runner.ts";

export interface StepLimits {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly numHostBlocks?: number;
  readonly window?: number | undefined;
  readonly maxPositions: number;
  readonly numStates?: number | undefined;
  readonly encoder?: EncoderLimits | undefined;
  readonly hasAxes?: boolean;
  /** Tokens that the previous step chooses, which may still be running. */
  readonly numCarriable?: number;
}

/** @throws Error that names the first wrong index */
export function checkStep(input: StepInput, limits: StepLimits): void {
  const numTokens = input.tokenIds.length;
  const numSlots = limits.numBlocks * limits.blockSize;
  expectLength("positions", input.positions, numTokens);
  expectLength("slots", input.slots, numTokens);
  expectBelow("positions", input.positions, limits.maxPositions);
  if (input.axes !== undefined) checkAxes(input.axes, numTokens, limits);
  expectBelow("slots", input.slots, numSlots);
  expectBelow("logitRows", input.logitRows, numTokens);
  if (input.carried !== undefined) checkCarried(input.carried, numTokens, limits);
  if (input.embeddings === undefined) expectBelow("tokenIds", input.tokenIds, limits.vocabSize);
  else checkEmbeddings(input, input.embeddings, limits);
  if (input.blockCopies !== undefined) checkBlockCopies(input.blockCopies, limits);
  checkSequences(input, limits);
  checkStates(input, limits);
  expectDistinct("slots", input.slots);
}

function checkAxes(axes: Int32Array, numTokens: number, { maxPositions, hasAxes = false }: StepLimits): void {
  if (!hasAxes) throw new Error("step: axes: expected none by this runner");
  expectLength("axes", axes, 3 * numTokens);
  expectBelow("axes", axes, maxPositions);
}

function checkCarried(carried: Int32Array, numTokens: number, { numCarriable = 0 }: StepLimits): void {
  expectLength("carried", carried, numTokens);
  for (let i = 0; i < carried.length; i++) {
    const row = carried[i] ?? -1;
    if (row < -1 || row >= numCarriable) throw outside("carried", i, row, numCarriable);
  }
}

function checkEmbeddings(
  { tokenIds }: StepInput,
  { rows, values }: NonNullable<StepInput["embeddings"]>,
  { vocabSize, hiddenSize }: StepLimits,
): void {
  expectBelow("embeddings.rows", rows, tokenIds.length);
  expectDistinct("embeddings.rows", rows);
  if (values.length !== rows.length * hiddenSize) {
    throw new Error(`step: embeddings.values: expected ${rows.length * hiddenSize} numbers, got ${values.length}`);
  }
  const replaced = new Set(rows);
  tokenIds.forEach((id, row) => {
    if ((id < 0 || id >= vocabSize) && !replaced.has(row)) throw outside("tokenIds", row, id, vocabSize);
  });
}

function checkBlockCopies(copies: Int32Array, { numBlocks, numHostBlocks = 0 }: StepLimits): void {
  if (copies.length % 2 !== 0) throw new Error(`step: blockCopies: expected pairs, got ${copies.length} numbers`);
  expectBelow("blockCopies", copies, numBlocks + numHostBlocks);
}

function checkSequences(input: StepInput, limits: StepLimits): void {
  let covered = 0;
  for (const [i, sequence] of input.sequences.entries()) {
    const { queryStart, queryLength, contextLength } = sequence;
    const isWhole = [queryStart, queryLength, contextLength].every(Number.isSafeInteger);
    if (!isWhole || queryStart !== covered || queryLength < 1 || contextLength < queryLength) {
      const got = `${queryLength} queries at ${queryStart} of ${contextLength} tokens`;
      throw new Error(`step: sequences[${i}]: expected queries from token ${covered} on, got ${got}`);
    }
    covered += queryLength;
    if (covered > input.tokenIds.length) break;
    checkBlockTable(sequence, i, input.slots, limits);
  }
  if (covered !== input.tokenIds.length) {
    throw new Error(`step: sequences cover ${covered} of ${input.tokenIds.length} tokens`);
  }
}

function checkStates(
  { sequences, stateCopies, encoderInputs = [] }: StepInput,
  { numStates, encoder }: StepLimits,
): void {
  const states = Int32Array.from(sequences.flatMap(({ state }) => state ?? []));
  const expected = numStates === undefined ? 0 : sequences.length;
  if (states.length !== expected)
    throw new Error(`step: expected ${expected} states of sequences, got ${states.length}`);
  expectBelow("states", states, numStates ?? 0);
  expectDistinct("states", states);
  for (const { state, input } of encoderInputs) {
    expectBelow("encoderInputs", Int32Array.of(state), numStates ?? 0);
    const refusal = encoderRefusal(input, encoder);
    if (refusal !== undefined) throw new Error(`step: encoderInputs: ${refusal}`);
  }
  if (stateCopies === undefined) return;
  if (stateCopies.length % 2 !== 0)
    throw new Error(`step: stateCopies: expected pairs, got ${stateCopies.length} numbers`);
  expectBelow("stateCopies", stateCopies, numStates ?? 0);
}

/** The blocks exist, and the slots that the step writes are those that its attention reads. */
function checkBlockTable(
  { queryStart, queryLength, contextLength, blockTable }: StepSequence,
  index: number,
  slots: Int32Array,
  { blockSize, numBlocks, window }: StepLimits,
): void {
  const needed = Math.ceil(contextLength / blockSize);
  if (blockTable.length < needed) {
    throw new Error(`step: sequences[${index}]: expected ${needed} blocks, got ${blockTable.length}`);
  }
  const firstSeen = window === undefined ? 0 : Math.max(0, contextLength - queryLength - window + 1);
  for (let i = Math.floor(firstSeen / blockSize); i < needed; i++) {
    const block = blockTable[i] ?? -1;
    if (block < 0 || block >= numBlocks) throw outside(`sequences[${index}].blockTable`, i, block, numBlocks);
  }
  for (let i = 0; i < queryLength; i++) {
    const place = contextLength - queryLength + i;
    const expected = (blockTable[Math.floor(place / blockSize)] ?? 0) * blockSize + (place % blockSize);
    if (slots[queryStart + i] !== expected) {
      throw new Error(
        `step: slots[${queryStart + i}]: expected ${expected} by the block table, got ${slots[queryStart + i]}`,
      );
    }
  }
}

function expectLength(name: string, values: Int32Array, length: number): void {
  if (values.length !== length) throw new Error(`step: ${name}: expected ${length} numbers, got ${values.length}`);
}

function expectBelow(name: string, values: Int32Array, end: number): void {
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? -1;
    if (value < 0 || value >= end) throw outside(name, i, value, end);
  }
}

function expectDistinct(name: string, values: Int32Array): void {
  const seen = new Set<number>(values);
  if (seen.size === values.length) return;
  for (const value of values) if (!seen.delete(value)) throw new Error(`step: ${name}: ${value} occurs twice`);
}

function outside(name: string, index: number, value: number, end: number): Error {
  return new Error(`step: ${name}[${index}]: expected 0 to ${end - 1}, got ${value}`);
}
