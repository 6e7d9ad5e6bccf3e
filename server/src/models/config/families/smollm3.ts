/** SmolLM3: Llama with layers that have no positions. Source: transformers, modeling_smollm3.py. */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import { LLAMA_NAMES } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA } from "../base-rows.ts";

export const SMOLLM3: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "SmolLM3ForCausalLM",
    weights: LLAMA_NAMES,
    defaults: { tie_word_embeddings: true, no_rope_layer_interval: 4, rope_theta: 2e6 },
    window: { kind: "from-layer", isOnField: "use_sliding_window", field: "max_window_layers" },
    noEffect: ["no_rope_layer_interval"],
    variant: (fields) => ({ withoutRope: layersWithoutRope(fields) }),
  },
];

/** The list has a 1 for each layer that rotates. */
function layersWithoutRope(fields: HfFields): (layer: number) => boolean {
  const listed = fields.get("no_rope_layers");
  const interval = fields.int("no_rope_layer_interval", { min: 1, max: 4096 });
  if (listed === undefined) return (layer) => (layer + 1) % interval === 0;
  const isFlag = (value: unknown): boolean => value === 0 || value === 1;
  if (!Array.isArray(listed) || !listed.every(isFlag))
    throw fields.refusal("no_rope_layers", "a list of 0 and 1", listed);
  return (layer) => listed[layer] === 0;
}
