/**
 * Ministral: Mistral with windows in some layers. Ministral 3 has queries that grow with their position; it comes alone and
 * as the language model of Mistral 3. Source: transformers, modeling_ministral.py and modeling_ministral3.py.
 */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import { LLAMA_NAMES } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";
import type { AttentionTemperature } from "../decoder-config.ts";

const MINISTRAL: Architecture = { ...LLAMA, className: "MinistralForCausalLM", weights: LLAMA_NAMES, biases: NO_BIAS };

const MINISTRAL3: Architecture = {
  ...MINISTRAL,
  className: "Ministral3ForCausalLM",
  defaults: { rms_norm_eps: 1e-5 },
  variant: (fields) => ({ temperature: temperatureOf(fields) }),
};

const MISTRAL3: Architecture = {
  ...MINISTRAL3,
  className: "Mistral3ForConditionalGeneration",
  weights: { ...LLAMA_NAMES, prefixes: ["language_model.model.", "model.language_model."] },
  section: "text_config",
};

export const MINISTRALS: readonly Architecture[] = [MINISTRAL, MINISTRAL3, MISTRAL3];

function temperatureOf(fields: HfFields): AttentionTemperature | undefined {
  const rope = fields.firstOf("rope_parameters", "rope_scaling");
  if (rope === undefined || (rope.get("llama_4_scaling_beta") ?? 0) === 0) return undefined;
  const positions = rope.int("original_max_position_embeddings", { min: 1, max: 1 << 24 });
  return { beta: rope.positive("llama_4_scaling_beta"), positions };
}
