/**
 * Maps GGUF tensor names to Hugging Face names, including slices of stacked experts. Source: ggml/docs/gguf.md,
 * "Standardized tensor names". Pure names and numbers.
 */

import { rowBytes, type StoredTensor } from "../tensors/tensor-source.ts";
import type { GgufArchitecture } from "./architecture.ts";
import type { GgufTensor } from "./header.ts";

export interface GgufPart {
  readonly tensor: StoredTensor;
  /** Name of the tensor in the file. */
  readonly sourceName: string;
  /** Byte offset within the source; above 0 for an expert, which is a slice of a stacked tensor. */
  readonly sourceOffset: number;
  /** Rows of a head whose two halves are interleaved; undefined when rows keep their order. */
  readonly pairedRows: number | undefined;
}

export const WHOLE: ReadonlyMap<string, string> = new Map([
  ["token_embd.weight", "model.embed_tokens.weight"],
  ["output_norm.weight", "model.norm.weight"],
  ["output_norm.bias", "model.norm.bias"],
  ["output.weight", "lm_head.weight"],
]);

export const IN_LAYER: ReadonlyMap<string, string> = new Map([
  ["attn_norm", "input_layernorm"],
  ["attn_q", "self_attn.q_proj"],
  ["attn_k", "self_attn.k_proj"],
  ["attn_v", "self_attn.v_proj"],
  ["attn_output", "self_attn.o_proj"],
  ["attn_q_norm", "self_attn.q_norm"],
  ["attn_k_norm", "self_attn.k_norm"],
  ["ffn_norm", "post_attention_layernorm"],
  ["ffn_gate", "mlp.gate_proj"],
  ["ffn_up", "mlp.up_proj"],
  ["ffn_down", "mlp.down_proj"],
]);

/** Start of the names of a layer. */
export const LAYER = "model.layers.#.";

/** The parts of an architecture that name tensors. */
export type GgufTensorNames = Pick<GgufArchitecture, "modules" | "expertModules" | "layerTensors" | "layer" | "whole">;

/** Published models have at most some 500 experts. */
const MAX_EXPERTS = 4096;

/**
 * The Hugging Face tensors of a GGUF tensor; empty for one with no counterpart. `headRows` is the rows of a head when
 * query and key rows are interleaved. @throws Error naming an expert tensor of the wrong shape
 */
export function ggufParts(
  source: GgufTensor,
  headRows: number | undefined,
  { modules = {}, expertModules = {}, ...names }: GgufTensorNames = {},
): readonly GgufPart[] {
  const whole = names.whole?.[source.name] ?? WHOLE.get(source.name);
  if (whole !== undefined) return [partOf(source, whole, undefined)];
  const match = /^blk\.(\d{1,4})\.([a-z_]+)\.(weight|bias)$/.exec(source.name);
  if (match === null) return [];
  const [, layer = "", module = "", kind = ""] = match;
  const start = (names.layer ?? LAYER).replace("#", layer);
  const tensor = names.layerTensors?.[`${module}.${kind}`];
  if (tensor !== undefined) return [partOf(source, start + tensor, undefined)];
  const expert = expertModules[module];
  if (expert !== undefined) return expertParts(source, `${start}${expert}.${kind}`);
  const name = modules[module] ?? IN_LAYER.get(module);
  if (name === undefined) return [];
  const isPaired = module === "attn_q" || module === "attn_k";
  return [partOf(source, `${start}${name}.${kind}`, isPaired ? headRows : undefined)];
}

function partOf(source: GgufTensor, name: string, pairedRows: number | undefined): GgufPart {
  const { dtype, shape, byteLength } = source;
  return { tensor: { name, dtype, shape, byteLength }, sourceName: source.name, sourceOffset: 0, pairedRows };
}

/** `name`: "#" stands for the expert. A stack of matrices, or of biases. */
function expertParts(source: GgufTensor, name: string): GgufPart[] {
  const [numExperts = 0, rows = 0, columns = 0] = source.shape;
  const isBias = name.endsWith(".bias");
  if (source.shape.length !== (isBias ? 2 : 3) || numExperts > MAX_EXPERTS) {
    throw new Error(
      `tensor "${source.name}": expected at most ${MAX_EXPERTS} ${isBias ? "biases" : "matrices"}, got ` +
        `[${source.shape.join(", ")}]`,
    );
  }
  const shape = isBias ? [rows] : [rows, columns];
  const byteLength = isBias ? rowBytes(source.dtype, rows) : rows * rowBytes(source.dtype, columns);
  return Array.from({ length: numExperts }, (_, i) => ({
    tensor: { name: name.replace("#", String(i)), dtype: source.dtype, shape, byteLength },
    sourceName: source.name,
    sourceOffset: i * byteLength,
    pairedRows: undefined,
  }));
}
