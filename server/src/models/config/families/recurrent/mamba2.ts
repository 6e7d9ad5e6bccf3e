/**
 * Mamba-2 layers among layers that attend, as several families have them; and Bamba, which has nothing else. Source: transformers,
 * modeling_granitemoehybrid.py and modeling_bamba.py.
 */
import type { HfFields } from "../../../../formats/hf/config-fields.ts";
import { LLAMA_NAMES, type RecurrentNames } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import { LLAMA, NO_BIAS } from "../../base-rows.ts";
import { listedRecurrent } from "./recurrent-layers.ts";

const SIZE = { min: 1, max: 1 << 24 } as const;

export const MAMBA2_NAMES: RecurrentNames = {
  in: ["mamba.in_proj"],
  out: "mamba.out_proj",
  conv: "mamba.conv1d",
  timeBias: "mamba.dt_bias",
  decay: "mamba.A_log",
  skip: "mamba.D",
  norm: "mamba.norm",
};

export const MAMBA2_DEFAULTS: Readonly<Record<string, unknown>> = {
  mamba_n_heads: 128,
  mamba_n_groups: 1,
  mamba_d_state: 256,
  mamba_d_head: "auto",
  mamba_d_conv: 4,
  mamba_expand: 2,
};

export const BAMBAS: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "BambaForCausalLM",
    weights: {
      ...LLAMA_NAMES,
      norm: "final_layernorm",
      mlpNorm: "pre_ff_layernorm",
      mlpIn: ["feed_forward.gate_proj", "feed_forward.up_proj"],
      mlpOut: "feed_forward.down_proj",
      recurrent: MAMBA2_NAMES,
    },
    defaults: { ...MAMBA2_DEFAULTS, rms_norm_eps: 1e-5, partial_rotary_factor: 0.5 },
    biases: {
      ...NO_BIAS,
      qkv: { field: "attention_bias" },
      oProj: { field: "attention_bias" },
      mlp: { field: "mlp_bias" },
    },
    window: { kind: "none" },
    noEffect: ["mamba_chunk_size", "num_logits_to_keep", "attn_rotary_emb", "z_loss_coefficient"],
    variant: (fields) => ({ ...mambaVariant(fields), isRecurrent: byIndex(fields) }),
  },
];

/** The layers that attend. */
function byIndex(fields: HfFields): (layer: number) => boolean {
  const indices = fields.get("attn_layer_indices") ?? [];
  if (Array.isArray(indices)) return (layer) => !indices.includes(layer);
  throw fields.refusal("attn_layer_indices", "numbers of layers", indices);
}

/** Layers that attend are listed; the others are Mamba-2. */
export function mambaVariant(fields: HfFields): Partial<Architecture> {
  const name = fields.get("layer_types") === undefined ? "layers_block_type" : "layer_types";
  const isRecurrent = listedRecurrent(fields, name, ["linear_attention", "mamba"]) ?? (() => true);
  const count = fields.int("num_hidden_layers", { min: 1, max: 4096 });
  if (!Array.from({ length: count }, (_, layer) => isRecurrent(layer)).includes(true)) return {};
  const limits = fields.get("time_step_limit");
  if (Array.isArray(limits) && !(limits[0] === 0 && !(Number(limits[1]) < Number.POSITIVE_INFINITY)))
    throw fields.refusal("time_step_limit", "no limit", limits);
  const numHeads = fields.int("mamba_n_heads", SIZE);
  const width = fields.int("mamba_expand", SIZE) * fields.int("hidden_size", SIZE);
  const headDim = fields.get("mamba_d_head") === "auto" ? width / numHeads : fields.int("mamba_d_head", SIZE);
  if (numHeads * headDim !== width)
    throw fields.refusal("mamba_n_heads", `heads of ${width} elements in all`, numHeads);
  return {
    isRecurrent,
    hasRecurrentBias: fields.boolean("mamba_proj_bias", false),
    recurrent: {
      kind: "mamba-2",
      numHeads,
      headDim,
      stateSize: fields.int("mamba_d_state", SIZE),
      numGroups: fields.int("mamba_n_groups", SIZE),
      convWidth: fields.int("mamba_d_conv", { min: 2, max: 64 }),
      hasConvBias: fields.boolean("mamba_conv_bias", true),
    },
  };
}
