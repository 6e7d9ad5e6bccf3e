/**
 * Chooses the steps that a runner makes before its engine is ready. No request then waits for the first step of its
 * kind. There are prompts of each size to which GEMMs are padded, and decode steps of each recorded batch size and
 * context. Pure.
 */
import { gemmRows } from "../../device/cuda/dense-gemm.ts";
import type { StepInput, StepRuleRows, TokenChoice } from "../step-runner.ts";

export interface WarmUpBounds {
  readonly maxTokens: number;
  readonly maxSequences: number;
  readonly maxPositions: number;
  readonly blockSize: number;
  readonly numBlocks: number;
}

/** Sequences that add one token each behind a context, beside a part of a prompt. */
export interface WarmUpStep {
  /** In the log, and in the record for the next start. */
  readonly name: string;
  /** 0: only the prompt. */
  readonly numDecoding: number;
  /** Whole blocks before the token of each decoding sequence. */
  readonly contextBlocks: number;
  /** Tokens of the prompt in this step; 0: there is none. */
  readonly promptTokens: number;
  /** Position of the first of them: earlier ones were in steps before. */
  readonly promptStart: number;
  /** It records a graph: a record of an earlier start does not replace it. */
  readonly isRecorded: boolean;
  /** Its tokens are chosen in each way that has kernels of its own. */
  readonly hasEveryChoice?: boolean;
}

/** Contexts beyond are left to the first request that has one: to fill them takes longer than to record their graphs. */
const MAX_CONTEXT_TOKENS = 8192;
/** Smallest number of blocks that a recorded step is made for. */
const FIRST_CONTEXT_BLOCKS = 16;
const MIXED_SEQUENCES = [1, 8];
/** Graphs take memory of the device, some megabytes each. */
const MAX_GRAPHS = 96;
const TOKEN = 1;

/** The most useful first: what comes behind is made later when the time runs out. */
export function planWarmUp(bounds: WarmUpBounds): readonly WarmUpStep[] {
  const { maxTokens, maxSequences, maxPositions } = bounds;
  const longestPrompt = Math.min(maxTokens, maxPositions, contextRoom(bounds) * bounds.blockSize);
  const prompts = rowSizes(longestPrompt);
  const batches = rowSizes(Math.min(maxSequences, maxTokens, bounds.numBlocks - 1));
  const [first = 0, ...more] = contexts(bounds);
  const last = more.at(-1) ?? first;
  const powers = prompts.filter((size) => size === longestPrompt || Number.isInteger(Math.log2(size)));
  const others = prompts.filter((size) => !powers.includes(size));
  return [
    ...powers.map((size) => promptStep(size, false)),
    ...fillSteps(longestPrompt, first * bounds.blockSize, maxTokens),
    choiceStep(first),
    ...batches.map((size) => decodeStep(size, first)),
    ...mixedSteps(batches, longestPrompt, maxTokens),
    ...fillSteps(Math.max(longestPrompt, first * bounds.blockSize), last * bounds.blockSize, maxTokens),
    ...more
      .flatMap((context) => batches.map((size) => decodeStep(size, context)))
      .slice(0, Math.max(0, MAX_GRAPHS - batches.length)),
    ...others.map((size) => promptStep(size, true)),
  ];
}

/** A step whose kernels are loaded by others may be left to the record of an earlier start. */
function promptStep(numTokens: number, mayBeKnown: boolean): WarmUpStep {
  const name = promptName(numTokens);
  return { name, numDecoding: 0, contextBlocks: 0, promptTokens: numTokens, promptStart: 0, isRecorded: !mayBeKnown };
}

/** A step with a whole prompt and nothing else. */
export function promptName(numTokens: number): string {
  return `prompt of ${numTokens}`;
}

/** Parts of a long prompt, which write the contexts of later steps. */
function fillSteps(from: number, to: number, maxTokens: number): WarmUpStep[] {
  const steps: WarmUpStep[] = [];
  for (let promptStart = from; promptStart < to; promptStart += maxTokens) {
    const promptTokens = Math.min(maxTokens, to - promptStart);
    const name = `${promptTokens} tokens of a prompt behind ${promptStart}`;
    steps.push({ name, numDecoding: 0, contextBlocks: 0, promptTokens, promptStart, isRecorded: true });
  }
  return steps;
}

function decodeStep(numDecoding: number, contextBlocks: number): WarmUpStep {
  const name = `${numDecoding} sequences of ${contextBlocks + 1} blocks`;
  return { name, numDecoding, contextBlocks, promptTokens: 0, promptStart: 0, isRecorded: true };
}

function choiceStep(contextBlocks: number): WarmUpStep {
  return { ...decodeStep(1, contextBlocks), name: "one sequence and every way to choose", hasEveryChoice: true };
}

function mixedSteps(batches: readonly number[], longestPrompt: number, maxTokens: number): WarmUpStep[] {
  const sizes = MIXED_SEQUENCES.filter((size) => batches.includes(size) && size < maxTokens);
  return sizes.map((numDecoding) => {
    const promptTokens = Math.min(64, longestPrompt, maxTokens - numDecoding);
    const name = `${numDecoding} sequences beside a prompt of ${promptTokens}`;
    return { name, numDecoding, contextBlocks: 0, promptTokens, promptStart: 0, isRecorded: true };
  });
}

/** Row counts to which GEMMs are padded, up to `most`. */
export function rowSizes(most: number): readonly number[] {
  const sizes = Array.from({ length: Math.max(0, most) }, (_, i) => Math.min(most, gemmRows(i + 1)));
  return [...new Set(sizes)];
}

/** Whole blocks before the token, so that each fills the table of a recorded size. */
function contexts(bounds: WarmUpBounds): readonly number[] {
  const room = contextRoom(bounds);
  const tables: number[] = [];
  for (let blocks = FIRST_CONTEXT_BLOCKS; ; blocks *= 2) {
    tables.push(Math.max(0, Math.min(blocks, room) - 1));
    if (blocks >= room) return [...new Set(tables)];
  }
}

/** Blocks of the longest context that is warmed up. */
function contextRoom({ blockSize, numBlocks, maxPositions, maxSequences }: WarmUpBounds): number {
  const tokens = Math.min(maxPositions, MAX_CONTEXT_TOKENS);
  return Math.max(1, Math.min(Math.floor(tokens / blockSize), numBlocks - Math.min(maxSequences, numBlocks - 1)));
}

/**
 * The step itself. Blocks from 0 on are the context of all sequences, and a prompt writes them. Each decoding sequence
 * has a block of its own behind them, so every block is written before it is read.
 */
export function warmUpInput(step: WarmUpStep, { blockSize, numBlocks }: WarmUpBounds): StepInput {
  const { numDecoding, contextBlocks, promptTokens, promptStart } = step;
  const numTokens = numDecoding + promptTokens;
  const positions = new Int32Array(numTokens);
  const slots = new Int32Array(numTokens);
  const sequences: StepInput["sequences"][number][] = [];
  const context = blocksFrom0(contextBlocks);
  const position = contextBlocks * blockSize;
  for (let i = 0; i < numDecoding; i++) {
    const own = numBlocks - 1 - i;
    positions[i] = position;
    slots[i] = own * blockSize;
    const blockTable = Int32Array.of(...context, own);
    sequences.push({ queryStart: i, queryLength: 1, contextLength: position + 1, blockTable });
  }
  for (let i = 0; i < promptTokens; i++) {
    positions[numDecoding + i] = promptStart + i;
    slots[numDecoding + i] = promptStart + i;
  }
  if (promptTokens > 0) {
    const contextLength = promptStart + promptTokens;
    const blockTable = blocksFrom0(Math.ceil(contextLength / blockSize));
    sequences.push({ queryStart: numDecoding, queryLength: promptTokens, contextLength, blockTable });
  }
  const logitRows = Int32Array.from(sequences, ({ queryStart, queryLength }) => queryStart + queryLength - 1);
  return { tokenIds: new Int32Array(numTokens).fill(TOKEN), positions, slots, sequences, logitRows };
}

function blocksFrom0(count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, block) => block);
}

const GREEDY = { temperature: 0, topK: 1, topP: 0, minP: 0, seedLow: 1, seedHigh: 0, index: 0, banned: [], numTop: 0 };
/** All ways to choose, side by side. */
const CHOICES: readonly TokenChoice[] = [
  GREEDY,
  { ...GREEDY, temperature: 0.8, topK: 0, topP: 0.9 },
  { ...GREEDY, temperature: 0.8, topK: 50 },
];

/** With a guide, penalties and the most likely tokens. Their row of counts is written anew for each request. */
const EVERY_CHOICE: TokenChoice = {
  ...GREEDY,
  numTop: 1,
  rules: { countRow: 0, biasRow: -1, repetitionPenalty: 1.1, presencePenalty: 0.1, frequencyPenalty: 0.1 },
};
export const EVERY_CHOICE_ROWS: StepRuleRows = { counts: [{ row: 0, occurrences: new Map([[TOKEN, 1]]) }], biases: [] };

export function everyChoice(vocabSize: number): readonly TokenChoice[] {
  return [{ ...EVERY_CHOICE, mask: new Int32Array(Math.ceil(vocabSize / 32)).fill(-1) }];
}

export function warmUpChoices(count: number): readonly TokenChoice[] {
  return Array.from({ length: count }, (_, i) => CHOICES[i % CHOICES.length] ?? GREEDY);
}
