/**
 * Assembles Hugging Face tensors from the rank files of a TensorRT-LLM checkpoint. Floats only: quantized tensors are
 * left out. Source: layout.ts names the checkpoint format.
 */

import type { WeightNames } from "../hf/weight-names.ts";
import { GemmaNormTensors } from "../tensors/gemma-norms.ts";
import { type MergedTensor, MergedTensors, type TensorPiece } from "../tensors/merged-tensors.ts";
import { type StoredTensor, type TensorSource, tensorBytes } from "../tensors/tensor-source.ts";
import {
  type LayoutMapping,
  type LayoutModel,
  type LayoutPart,
  type LayoutTensor,
  rankColumns,
  rankShape,
  rankSlices,
  stageTensors,
} from "./layout.ts";

export interface MergeOptions {
  readonly model: LayoutModel;
  readonly names: WeightNames;
  readonly mapping: LayoutMapping;
  /** Rank tensors to leave out, by name. */
  isLeftOut(stage: number, name: string): boolean;
}

/**
 * `ranks`: those of the first pipeline stage, then those of the next. @throws Error naming a tensor that does not fit
 */
export function mergeRanks(ranks: readonly TensorSource[], options: MergeOptions): TensorSource {
  const { model, names, mapping } = options;
  const { tpSize, ppSize } = mapping;
  const drafts = new Map<string, Draft>();
  for (let stage = 0; stage < ppSize; stage++) {
    const sources = ranks.slice(stage * tpSize, (stage + 1) * tpSize);
    for (const tensor of stageTensors(model, names, names.prefixes[0] ?? "", mapping, stage)) {
      if (!options.isLeftOut(stage, tensor.name)) addPieces(drafts, sources, tensor);
    }
  }
  const merged = [...drafts].map(([name, draft]) => mergedTensor(name, draft));
  const lessOne = [...drafts].filter(([, { tensor }]) => tensor.addsOne).map(([name]) => name);
  const source = new MergedTensors(merged, ranks);
  return lessOne.length === 0 ? source : new GemmaNormTensors(source, lessOne);
}

interface Draft {
  readonly tensor: LayoutTensor;
  /** Counted as rows of outputs. */
  readonly shape: readonly number[];
  readonly pieces: TensorPiece[];
}

function addPieces(drafts: Map<string, Draft>, sources: readonly TensorSource[], tensor: LayoutTensor): void {
  const tpSize = sources.length;
  for (const [rank, source] of sources.entries()) {
    if (tensor.split === "whole" && rank > 0) return;
    expectShape(source, tensor.name, rankShape(tensor, rank, tpSize));
    const columns = rankColumns(tensor, rank, tpSize);
    let sourceRow = 0;
    for (const slice of rankSlices(tensor, rank, tpSize)) {
      const place = { row: slice.sourceRow, numRows: slice.numRows, column: columns.first, numColumns: columns.count };
      const piece = { source, name: tensor.name, sourceRow, ...place };
      if (!slice.isCopy && slice.numRows > 0) draftOf(drafts, tensor, slice.part).pieces.push(piece);
      sourceRow += slice.numRows;
    }
  }
}

function draftOf(drafts: Map<string, Draft>, tensor: LayoutTensor, part: LayoutPart): Draft {
  const known = drafts.get(part.name);
  if (known !== undefined) return known;
  const draft = { tensor, shape: part.shape, pieces: [] };
  drafts.set(part.name, draft);
  return draft;
}

function expectShape(source: TensorSource, name: string, shape: readonly number[]): void {
  const tensor = source.tensors.get(name);
  if (tensor === undefined) throw new Error(`the checkpoint lacks tensor "${name}"`);
  if (tensor.shape.length === shape.length && shape.every((size, i) => size === tensor.shape[i])) return;
  throw new Error(`tensor "${name}": expected [${shape.join(", ")}] from the config, got [${tensor.shape.join(", ")}]`);
}

function mergedTensor(name: string, { shape, pieces }: Draft): MergedTensor {
  const dtype = dtypeOf(name, pieces);
  return { tensor: { name, dtype, shape, byteLength: tensorBytes(dtype, shape) }, pieces };
}

function dtypeOf(name: string, pieces: readonly TensorPiece[]): StoredTensor["dtype"] {
  const dtypes = new Set(pieces.map((piece) => piece.source.tensors.get(piece.name)?.dtype));
  const [dtype] = dtypes;
  if (dtype !== undefined && dtypes.size === 1) return dtype;
  throw new Error(`tensor "${name}": expected one type on all ranks, got ${[...dtypes].join(", ")}`);
}
