/**
 * Where each projection of Hugging Face lies in the ranks of a TensorRT-LLM checkpoint of the Llama family. Pure names and
 * numbers.
 */
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
