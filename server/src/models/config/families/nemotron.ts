/**
 * Nemotron 4 and Minitron: layer norms of (1 + weight), squared ReLU without a gate, positions in half of each head. Arcee
 * is Llama with that MLP, Jais 2 too with layer norms. Source: transformers, modeling_nemotron.py, modeling_arcee.py and
 * modeling_jais2.py.
 */
import { LLAMA_NAMES } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA } from "../base-rows.ts";

const UNGATED = { ...LLAMA_NAMES, mlpIn: ["mlp.up_proj"] };

export const NEMOTRONS: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "NemotronForCausalLM",
    weights: UNGATED,
    aliases: { rms_norm_eps: "norm_eps" },
    defaults: { hidden_act: "relu2", norm_eps: 1e-5, partial_rotary_factor: 0.5 },
    norm: "layer-plus-one",
    isGated: false,
  },
  {
    ...LLAMA,
    className: "ArceeForCausalLM",
    weights: UNGATED,
    defaults: { hidden_act: "relu2", rms_norm_eps: 1e-5 },
    isGated: false,
  },
  {
    ...LLAMA,
    className: "Jais2ForCausalLM",
    weights: UNGATED,
    aliases: { rms_norm_eps: "layer_norm_eps" },
    defaults: { hidden_act: "relu2", layer_norm_eps: 1e-5, attention_bias: true, mlp_bias: true },
    norm: "layer",
    isGated: false,
  },
];
