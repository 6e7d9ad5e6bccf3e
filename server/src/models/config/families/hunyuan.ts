/**
 * Hunyuan: norms of query and key heads behind the rotation. Source: transformers, modeling_hunyuan_v1_dense.py.
 */
import { LLAMA_NAMES } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

export const HUNYUAN: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "HunYuanDenseV1ForCausalLM",
    weights: { ...LLAMA_NAMES, headNorms: ["self_attn.query_layernorm", "self_attn.key_layernorm"] },
    defaults: { rms_norm_eps: 1e-5 },
    headNorm: { kind: "rms", scope: "head", isAfterRope: true },
    biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
  },
];
