/**
 * How the whole numbers of a step lie side by side in one piece of memory, so that one copy brings them to the device.
 * Steps of the same sizes have the same layout: a recorded graph finds them where it was recorded. Pure.
 */
import type { LoraTiles } from "../../../kernels/lora/lora-tiles.ts";
import { SAMPLE_PARAMS_BYTES } from "../../../kernels/sample/sample-params.ts";

export interface StepSizes {
  readonly numTokens: number;
  /** Tokens have a time, a row and a column. */
  readonly hasAxes?: boolean;
  readonly numSequences: number;
  /** Entries of each sequence's row of the block table. */
  readonly maxBlocks: number;
  readonly numLogitRows: number;
  /** Rows whose tokens are chosen on the device. */
  readonly numChoices: number;
  /** Tiles of the rows that carry adapters, and of such rows among the rows of logits. */
  readonly loraTiles?: LoraTiles | undefined;
  readonly keptLoraTiles?: LoraTiles | undefined;
}

/** Words that say how one token is chosen. */
export const CHOICE_WORDS: number = SAMPLE_PARAMS_BYTES / 4;

/** Indices of i32 elements. */
export interface StepLayout {
  readonly tokenIds: number; // [numTokens]
  readonly positions: number; // [numTokens]
  readonly axes: number; // [3, numTokens], where tokens have them
  readonly slots: number; // [numTokens]
  readonly queryStart: number; // [numSequences + 1]
  readonly contextLengths: number; // [numSequences]
  readonly logitRows: number; // [numLogitRows]
  readonly choices: number; // [numChoices, CHOICE_WORDS]
  readonly loraAdapters: number; // [tiles, 2]
  readonly loraRows: number; // [tiles, rows of a tile]
  readonly keptLoraAdapters: number; // likewise
  readonly keptLoraRows: number;
  readonly blockTable: number; // [numSequences, maxBlocks]
  readonly length: number;
}

const NUM_AXES = 3;
/** Kernels may read 16 bytes at a time. */
const ALIGNMENT = 4;

export function layOutStep(sizes: StepSizes): StepLayout {
  const { numTokens, numSequences, maxBlocks, numLogitRows, numChoices, loraTiles, keptLoraTiles } = sizes;
  let end = 0;
  const take = (count: number): number => {
    const start = end;
    end = Math.ceil((start + count) / ALIGNMENT) * ALIGNMENT;
    return start;
  };
  const tokenIds = take(numTokens);
  const positions = take(numTokens);
  const axes = take(sizes.hasAxes === true ? NUM_AXES * numTokens : 0);
  const slots = take(numTokens);
  const queryStart = take(numSequences + 1);
  const contextLengths = take(numSequences);
  const logitRows = take(numLogitRows);
  const choices = take(numChoices * CHOICE_WORDS);
  const [loraAdapters, loraRows] = takeTiles(take, loraTiles);
  const [keptLoraAdapters, keptLoraRows] = takeTiles(take, keptLoraTiles);
  const blockTable = take(numSequences * maxBlocks);
  return {
    ...{ tokenIds, positions, axes, slots, queryStart, contextLengths, logitRows, choices },
    ...{ loraAdapters, loraRows, keptLoraAdapters, keptLoraRows },
    ...{ blockTable, length: end },
  };
}

function takeTiles(
  take: (count: number) => number,
  tiles: LoraTiles | undefined,
): readonly [adapters: number, rows: number] {
  return [take(2 * (tiles?.numTiles ?? 0)), take((tiles?.numTiles ?? 0) * (tiles?.rowsPerTile ?? 0))];
}

/** Inputs of a step; see the contract of step runners. */
export interface StepNumbers {
  readonly tokenIds: Int32Array;
  readonly positions: Int32Array;
  readonly axes?: Int32Array;
  readonly slots: Int32Array;
  readonly logitRows: Int32Array;
  readonly carried?: Int32Array;
  readonly sequences: readonly {
    readonly queryStart: number;
    readonly contextLength: number;
    readonly blockTable: Int32Array;
  }[];
}

/** Fills `into`. Rows that only make up the number store nothing, see nothing and give nothing. */
export function packStep(
  step: StepNumbers,
  sizes: StepSizes,
  layout: StepLayout,
  blockSize: number,
  into: Int32Array,
): void {
  const { numTokens, numSequences, maxBlocks, numLogitRows } = sizes;
  const count = step.tokenIds.length;
  fillTail(into, layout.tokenIds, step.tokenIds, numTokens, 0);
  for (let i = 0; i < count && step.carried !== undefined; i++) {
    const row = step.carried[i] ?? -1;
    if (row >= 0) into[layout.tokenIds + i] = -2 - row; // as the look-up of tokens knows them
  }
  fillTail(into, layout.positions, step.positions, numTokens, 0);
  packAxes(step, sizes, layout.axes, into);
  fillTail(into, layout.slots, step.slots, numTokens, -1);
  fillTail(into, layout.logitRows, step.logitRows, numLogitRows, 0);
  for (let i = 0; i < numSequences; i++) {
    const sequence = step.sequences[i];
    const padding = i - step.sequences.length;
    into[layout.queryStart + i] = sequence === undefined ? Math.min(numTokens, count + padding) : sequence.queryStart;
    into[layout.contextLengths + i] = sequence?.contextLength ?? 0;
    if (sequence === undefined) continue;
    const needed = Math.ceil(sequence.contextLength / blockSize);
    const row = layout.blockTable + i * maxBlocks;
    into.set(sequence.blockTable.subarray(0, needed), row);
    // Blocks before the window may be gone: no kernel uses what is there, but one may look.
    for (let at = row; at < row + needed && (into[at] ?? 0) < 0; at++) into[at] = 0;
  }
  into[layout.queryStart + numSequences] = Math.min(numTokens, count + numSequences - step.sequences.length);
}

/** Tokens without axes rotate by their position alone. */
function packAxes(
  { axes, positions }: StepNumbers,
  { hasAxes, numTokens }: StepSizes,
  at: number,
  into: Int32Array,
): void {
  if (hasAxes !== true) return;
  const count = positions.length;
  for (let axis = 0; axis < NUM_AXES; axis++) {
    const own = axes === undefined ? positions : axes.subarray(axis * count, (axis + 1) * count);
    fillTail(into, at + axis * numTokens, own, numTokens, 0);
  }
}

function fillTail(into: Int32Array, at: number, values: Int32Array, length: number, tail: number): void {
  into.set(values, at);
  into.fill(tail, at + values.length, at + length);
}
