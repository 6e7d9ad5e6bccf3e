/**
 * Which rectangles of which ranks make up each tensor of Hugging Face, for TensorRT-LLM checkpoints of the Llama family.
 * Pure names and numbers but for the sources that it passes on.
 */
import type { MergedTensor, TensorPiece } from "./merged-tensors.ts";
import { type StoredTensor, type TensorSource, tensorBytes } from "./tensor-source.ts";
import type { TrtllmConfig } from "./trtllm-config.ts";

/** Where a matrix of Hugging Face lies within one of a rank. */
export interface RowSlice {
  readonly module: string;
  /** Of each rank that keeps a part of its own, in order. */
  readonly ranks: readonly number[];
  readonly sourceRow: number;
  readonly rowsPerRank: number;
  readonly sourceRows: number;
}

/** A projection: rows are split over ranks, or columns. */
export type Projection =
  | ({ readonly split: "rows"; readonly name: string; readonly columns: number } & RowSlice)
  | {
      readonly split: "columns";
      readonly name: string;
      readonly module: string;
      readonly rows: number;
      readonly columns: number;
    };

/** The projections of a layer, by the names within it. */
export function layerProjections(config: TrtllmConfig): readonly Projection[] {
  const { tpSize, numHeads, numKvHeads, headDim, hiddenSize, intermediateSize } = config;
  const all = Array.from({ length: tpSize }, (_, rank) => rank);
  const queryRows = (numHeads / tpSize) * headDim;
  const kvHeadsPerRank = Math.max(1, numKvHeads / tpSize);
  const kvRows = kvHeadsPerRank * headDim;
  // Ranks that share a key-value head have copies: the first of them speaks for all.
  const kvRanks = all.filter((rank) => rank % Math.max(1, tpSize / numKvHeads) === 0);
  const qkv = {
    split: "rows",
    columns: hiddenSize,
    module: "attention.qkv",
    sourceRows: queryRows + 2 * kvRows,
  } as const;
  const mlp = { split: "rows", columns: hiddenSize, ranks: all, sourceRow: 0 } as const;
  const mlpRows = { rowsPerRank: intermediateSize / tpSize, sourceRows: intermediateSize / tpSize };
  return [
    { ...qkv, name: "self_attn.q_proj", ranks: all, sourceRow: 0, rowsPerRank: queryRows },
    { ...qkv, name: "self_attn.k_proj", ranks: kvRanks, sourceRow: queryRows, rowsPerRank: kvRows },
    { ...qkv, name: "self_attn.v_proj", ranks: kvRanks, sourceRow: queryRows + kvRows, rowsPerRank: kvRows },
    { ...mlp, ...mlpRows, name: "mlp.gate_proj", module: "mlp.fc" },
    { ...mlp, ...mlpRows, name: "mlp.up_proj", module: "mlp.gate" },
    {
      split: "columns",
      name: "self_attn.o_proj",
      module: "attention.dense",
      rows: hiddenSize,
      columns: numHeads * headDim,
    },
    { split: "columns", name: "mlp.down_proj", module: "mlp.proj", rows: hiddenSize, columns: intermediateSize },
  ];
}

/** `stage` is the tensor-parallel ranks of one pipeline stage; `at` names the layer there, `name` in Hugging Face. */
export function mergeProjection(
  stage: readonly TensorSource[],
  projection: Projection,
  at: string,
  name: string,
): readonly MergedTensor[] {
  const weight = projection.split === "rows" ? rowPieces(stage, projection, at) : columnPieces(stage, projection, at);
  const rows = projection.split === "rows" ? projection.rowsPerRank * projection.ranks.length : projection.rows;
  const merged = [mergedTensor(`${name}.weight`, [rows, projection.columns], weight)];
  const bias = `${at}.${projection.module}.bias`;
  if (stage[0]?.tensors.has(bias) !== true) return merged;
  return [...merged, mergedTensor(`${name}.bias`, [rows], biasPieces(stage, projection, bias))];
}

/** A tensor that each rank has whole. */
export function wholeTensor(
  source: TensorSource | undefined,
  name: string,
  shape: readonly number[],
  as: string,
): MergedTensor {
  return mergedTensor(as, shape, [pieceOf(source, name, shape, { row: 0, column: 0 })]);
}

/** Rows of a vocabulary, padded so that ranks have as many: what is beyond `numRows` is left out. */
export function vocabRows(
  stage: readonly TensorSource[],
  name: string,
  [numRows, columns]: readonly [number, number],
  as: string,
): MergedTensor {
  const perRank = Math.ceil(numRows / stage.length);
  const pieces = stage.map((source, rank) => {
    const stored = source.tensors.get(name)?.shape[0] ?? perRank;
    const sourceRows = stored >= perRank ? stored : perRank;
    const piece = pieceOf(source, name, [sourceRows, columns], { row: rank * sourceRows, column: 0 });
    return { ...piece, numRows: Math.min(piece.numRows, numRows - piece.row) };
  });
  return mergedTensor(
    as,
    [numRows, columns],
    pieces.filter((piece) => piece.numRows > 0),
  );
}

/** Columns of a vocabulary's table. */
export function vocabColumns(
  stage: readonly TensorSource[],
  name: string,
  [numRows, columns]: readonly [number, number],
  as: string,
): MergedTensor {
  const width = columns / stage.length;
  const pieces = stage.map((source, rank) => pieceOf(source, name, [numRows, width], { row: 0, column: rank * width }));
  return mergedTensor(as, [numRows, columns], pieces);
}

function rowPieces(
  stage: readonly TensorSource[],
  projection: Projection & { readonly split: "rows" },
  at: string,
): TensorPiece[] {
  const { ranks, rowsPerRank, sourceRow, sourceRows, columns, module } = projection;
  return ranks.map((rank, i) => {
    const place = { row: i * rowsPerRank, column: 0 };
    const piece = pieceOf(stage[rank], `${at}.${module}.weight`, [sourceRows, columns], place);
    return { ...piece, sourceRow, numRows: rowsPerRank };
  });
}

function columnPieces(
  stage: readonly TensorSource[],
  { rows, columns, module }: Projection & { readonly split: "columns" },
  at: string,
): TensorPiece[] {
  const width = columns / stage.length;
  return stage.map((source, rank) =>
    pieceOf(source, `${at}.${module}.weight`, [rows, width], { row: 0, column: rank * width }),
  );
}

/** Biases of what is split by columns are whole on each rank: they are added once. */
function biasPieces(stage: readonly TensorSource[], projection: Projection, name: string): TensorPiece[] {
  if (projection.split === "columns") return [pieceOf(stage[0], name, [projection.rows], { row: 0, column: 0 })];
  const { ranks, rowsPerRank, sourceRow, sourceRows } = projection;
  return ranks.map((rank, i) => {
    const piece = pieceOf(stage[rank], name, [sourceRows], { row: i * rowsPerRank, column: 0 });
    return { ...piece, sourceRow, numRows: rowsPerRank };
  });
}

/** All of a tensor, which must have `shape`. */
function pieceOf(
  source: TensorSource | undefined,
  name: string,
  shape: readonly number[],
  { row, column }: { readonly row: number; readonly column: number },
): TensorPiece {
  const tensor = source?.tensors.get(name);
  if (source === undefined || tensor === undefined) throw new Error(`the checkpoint lacks tensor "${name}"`);
  if (tensor.shape.length !== shape.length || !shape.every((size, i) => size === tensor.shape[i])) {
    throw new Error(
      `tensor "${name}": expected [${shape.join(", ")}] from the config, got [${tensor.shape.join(", ")}]`,
    );
  }
  return { source, name, sourceRow: 0, row, numRows: shape[0] ?? 0, column, numColumns: shape[1] ?? 1 };
}

function mergedTensor(name: string, shape: readonly number[], pieces: readonly TensorPiece[]): MergedTensor {
  const dtype = dtypeOf(name, pieces);
  return { tensor: { name, dtype, shape, byteLength: tensorBytes(dtype, shape) }, pieces };
}

function dtypeOf(name: string, pieces: readonly TensorPiece[]): StoredTensor["dtype"] {
  const dtypes = new Set(pieces.map((piece) => piece.source.tensors.get(piece.name)?.dtype));
  const [dtype] = dtypes;
  if (dtype !== undefined && dtypes.size === 1) return dtype;
  throw new Error(`tensor "${name}": expected one type on all ranks, got ${[...dtypes].join(", ")}`);
}
