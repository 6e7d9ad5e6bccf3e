/** Rows that others start from. */
import type { Architecture } from "./architecture.ts";
import type { HeadNorm } from "./decoder-config.ts";

/** A row; the names of its weights are in a table of their own. */
export type Row = Omit<Architecture, "weights">;

export const NO_BIAS: Architecture["biases"] = { qkv: false, oProj: false, mlp: false, output: false };

/** RMS norm of each query and key head before RoPE. */
export const HEAD_NORM: HeadNorm = { kind: "rms", scope: "head", isAfterRope: false };

export const LLAMA: Row = {
  className: "LlamaForCausalLM",
  norm: "rms",
  residual: "sequential",
  isGated: true,
  positions: "rope",
  scalesEmbedding: false,
  biases: {
    qkv: { field: "attention_bias" },
    oProj: { field: "attention_bias" },
    mlp: { field: "mlp_bias" },
    output: false,
  },
  window: { kind: "all" },
};
