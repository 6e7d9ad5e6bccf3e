/**
 * Refuses fields of config.json that seem to say how a model computes and that nothing has read: a wrong text is worse than
 * an error. A field counts by its name and its value; those that are known to change nothing pass.
 */
import type { HfFields } from "../../formats/hf/config-fields.ts";
import type { Architecture } from "./architecture.ts";

/** Parts of names that decide what is computed. */
const MATTERS =
  /rope|rotary|norm|scal|bias|attn|attention|window|sliding|sink|expert|moe|activation|softcap|capping|alibi|layer_types|multiplier|residual|mlp|logit|embed|position|clip|head|qk_|gate|router|shared|pattern|interval|temperature|swiglu|bidirectional|causal|multi_query|parallel/;
/** Training, storage and kernels: they change no result. */
const NEVER_MATTERS =
  /drop|loss|aux|jitter|initiali|dtype|fp32|fp16|cache|kernel|fus|implementation|gradient|checkpoint|summary|label|output_router|output_attentions|output_hidden|upcast|token_id|pretraining|init_|_init/;

/** Read by some rules only, and known to all. Sizes under other names show in the shapes of tensors. */
export const KNOWN_FIELDS: readonly string[] = [
  "attention_bias",
  "head_dim",
  "hidden_act",
  "hidden_activation",
  "is_decoder",
  "layer_types",
  "max_position_embeddings",
  "max_window_layers",
  "mlp_bias",
  "n_head",
  "n_positions",
  "norm_topk_prob",
  "num_attention_heads",
  "num_experts_per_tok",
  "num_key_value_heads",
  "original_max_position_embeddings",
  "partial_rotary_factor",
  "rope_local_base_freq",
  "rope_parameters",
  "rope_scaling",
  "rope_theta",
  "sliding_window",
  "sliding_window_pattern",
  "tie_word_embeddings",
  "_sliding_window_pattern",
  "use_sliding_window",
];
const KNOWN_ROPE_FIELDS: readonly string[] = [
  "attention_factor",
  "beta_fast",
  "beta_slow",
  "factor",
  "finetuned",
  "high_freq_factor",
  "long_factor",
  "long_mscale",
  "low_freq_factor",
  "mrope_section",
  "mscale",
  "mscale_all_dim",
  "original_max_position_embeddings",
  "partial_rotary_factor",
  "rope_theta",
  "rope_type",
  "short_factor",
  "short_mscale",
  "truncate",
  "type",
];

/** @throws Error naming file and field */
export function refuseUnknownFields(fields: HfFields, { className, aliases = {}, noEffect = [] }: Architecture): void {
  // The class has other names for fields of Llama: theirs say nothing.
  const passes = [...KNOWN_FIELDS, ...Object.keys(aliases), ...noEffect];
  refuse(fields, className, (name) => matchesAny(name, passes) || NEVER_MATTERS.test(name) || !MATTERS.test(name));
  const rope = fields.firstOf("rope_parameters", "rope_scaling");
  for (const part of ropesOf(rope)) refuse(part, className, (name) => KNOWN_ROPE_FIELDS.includes(name));
}

function ropesOf(rope: HfFields | undefined): readonly HfFields[] {
  if (rope === undefined) return [];
  if (rope.get("full_attention") === undefined) return [rope];
  return ["full_attention", "sliding_attention"].flatMap((name) => rope.section(name) ?? []);
}

function refuse(fields: HfFields, className: string, passes: (name: string) => boolean): void {
  const found = fields.unread().find(([name, value]) => !passes(name) && !isNeutral(value));
  if (found === undefined) return;
  const [name, value] = found;
  const expected = `no such field: it may change what ${className} computes, and nothing here reads it (remove it if it has no effect)`;
  throw fields.refusal(name, expected, value);
}

/** Values that switch nothing on. */
function isNeutral(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  if (typeof value === "object") return value === null || Object.keys(value).length === 0;
  return value === false || value === 0 || value === 1 || value === "" || value === "default";
}

/** A name that ends with an asterisk stands for all that begin so. */
function matchesAny(name: string, known: readonly string[]): boolean {
  return known.some((one) => (one.endsWith("*") ? name.startsWith(one.slice(0, -1)) : name === one));
}
