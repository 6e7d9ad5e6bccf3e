/**
 * Reads `adapter_config.json` of PEFT: rank and scale of each module. Source: PEFT documentation, `LoraConfig`. Options
 * that change the result in unsupported ways (DoRA, for example) are refused by name.
 */
import { HfFields } from "../hf/config-fields.ts";
import { MAX_LORA_RANK } from "./lora-adapter.ts";

export interface PeftConfig {
  rankOf(module: string): number;
  /** Multiplier of the product of both matrices (lora_alpha / r). */
  scaleOf(module: string): number;
  /** Names, or suffixes of names, of the trained modules. Empty when the file gives a pattern instead. */
  readonly targetModules: readonly string[];
}

/** Fields that must not be set, and the feature that each stands for. */
const REFUSED: readonly (readonly [field: string, what: string])[] = [
  ["use_dora", "DoRA is not supported"],
  ["use_qalora", "QA-LoRA is not supported"],
  ["lora_bias", "biases of adapters are not supported"],
  ["modules_to_save", "modules that were trained whole are not supported"],
  ["trainable_token_indices", "trained tokens are not supported"],
  ["layer_replication", "replicated layers are not supported"],
  ["target_parameters", "adapters of parameters are not supported"],
  ["alora_invocation_tokens", "adapters that wait for tokens are not supported"],
  ["arrow_config", "routed adapters are not supported"],
  ["kasa_config", "KaSA is not supported"],
  ["velora_config", "VeLoRA is not supported"],
  ["monteclora_config", "MonteCLoRA is not supported"],
  ["use_bdlora", "block-diagonal adapters are not supported"],
  ["lora_ga_config", "LoRA-GA changes the model's own weights"],
  ["megatron_config", "adapters of Megatron layers are not supported"],
];
/** These initialisations change the base weights, which the files do not contain. */
const CHANGES_BASE = /^(pissa|olora|corda|loftq)/;
const MAX_PATTERNS = 4096;
const MAX_MODULES = 4096;
/** PEFT treats patterns as regular expressions, so dots in module names may be escaped. */
const PLAIN_PATTERN = /^\^?(?:[\w-]|\\?\.)+$/;

/** @throws Error naming file and field */
export function parsePeftConfig(config: unknown, file: string): PeftConfig {
  const fields = new HfFields(config, file);
  const type = fields.get("peft_type");
  if (type !== "LORA") throw fields.refusal("peft_type", '"LORA"', type);
  refuseUnsupported(fields);
  const rank = fields.int("r", { min: 1, max: MAX_LORA_RANK });
  const alpha = fields.positive("lora_alpha", 8);
  const hasRootScale = fields.boolean("use_rslora", false);
  const ranks = parsePattern(fields, "rank_pattern");
  const alphas = parsePattern(fields, "alpha_pattern");
  const rankOf = (module: string): number => find(ranks, module) ?? rank;
  return {
    rankOf,
    scaleOf: (module) => {
      const own = rankOf(module);
      return (find(alphas, module) ?? alpha) / (hasRootScale ? Math.sqrt(own) : own);
    },
    targetModules: parseTargets(fields),
  };
}

function refuseUnsupported(fields: HfFields): void {
  for (const [field, what] of REFUSED) {
    const value = fields.get(field);
    const isEmpty = typeof value === "object" && value !== null && Object.keys(value).length === 0;
    if (value !== undefined && value !== false && !isEmpty) throw fields.refusal(field, `none: ${what}`, value);
  }
  const bias = fields.get("bias") ?? "none";
  if (bias !== "none") throw fields.refusal("bias", '"none": trained biases are not supported', bias);
  const start = fields.get("init_lora_weights");
  if (typeof start === "string" && CHANGES_BASE.test(start)) {
    throw fields.refusal("init_lora_weights", "one that leaves the model's own weights as they are", start);
  }
}

type Pattern = readonly (readonly [ending: string, isWhole: boolean, value: number])[];

function parsePattern(fields: HfFields, name: string): Pattern {
  const value = fields.get(name) ?? {};
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw fields.refusal(name, "numbers by the names of modules", value);
  const entries = Object.entries(value);
  if (entries.length > MAX_PATTERNS) throw fields.refusal(name, `at most ${MAX_PATTERNS} entries`, entries.length);
  return entries.map(([pattern, number]: [string, unknown]) => {
    if (!PLAIN_PATTERN.test(pattern)) throw fields.refusal(name, "names of modules, not expressions", pattern);
    const isNumber = typeof number === "number" && Number.isFinite(number) && number > 0 && number <= 1e9;
    if (!isNumber) throw fields.refusal(name, `a number above zero for "${pattern.slice(0, 80)}"`, number);
    return [pattern.replace(/^\^/, "").replaceAll("\\.", "."), pattern.startsWith("^"), number] as const;
  });
}

/** The first matching pattern counts. */
function find(patterns: Pattern, module: string): number | undefined {
  return patterns.find(([ending, isWhole]) => (isWhole ? module === ending : isEnding(module, ending)))?.[2];
}

/** Whether `ending` equals the name or its last components. */
export function isEnding(module: string, ending: string): boolean {
  return module === ending || module.endsWith(`.${ending}`);
}

function parseTargets(fields: HfFields): readonly string[] {
  const value = fields.get("target_modules");
  if (!Array.isArray(value)) return []; // a regular expression or "all-linear": the tensors decide
  const isName = (one: unknown): one is string => typeof one === "string";
  if (value.length > MAX_MODULES || !value.every(isName))
    throw fields.refusal("target_modules", `at most ${MAX_MODULES} names`, value);
  return value;
}
