/** Flags shared by the commands that write checkpoints. Pure. */

import type { Flag } from "@nereid/server/cli/arguments";

export const DTYPES = ["auto", "float16", "bfloat16", "float32"] as const;

export const DEVICE_FLAG: {
  readonly type: "string";
  readonly value: string;
  readonly default: "auto";
  readonly summary: string;
} = {
  type: "string",
  value: "DEVICE",
  default: "auto",
  summary: "device: cpu, cuda or cuda:N; auto: the first GPU, otherwise the CPU",
};

const SIZE = { type: "integer", default: 1, min: 1, max: 4096 } as const;

export const MAPPING_FLAGS: {
  readonly tp_size: Flag & typeof SIZE;
  readonly pp_size: Flag & typeof SIZE;
} = {
  // The Gemma converter's name for it.
  tp_size: { ...SIZE, aliases: ["world_size"], summary: "ranks over which each matrix is split" },
  pp_size: { ...SIZE, summary: "ranks over which layers are spread" },
};

export interface MappingValues {
  readonly tp_size: number;
  readonly pp_size: number;
  readonly use_parallel_embedding: boolean;
  readonly embedding_sharding_dim: string;
}

export function mappingOf(values: MappingValues): {
  readonly tpSize: number;
  readonly ppSize: number;
  readonly embeddingSplit: "none" | "vocab" | "hidden";
} {
  const split = values.embedding_sharding_dim === "1" ? "hidden" : "vocab";
  const isSplit = values.use_parallel_embedding && values.tp_size > 1;
  return { tpSize: values.tp_size, ppSize: values.pp_size, embeddingSplit: isSplit ? split : "none" };
}
