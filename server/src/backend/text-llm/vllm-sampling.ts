/**
 * Sampling parameters of a `vllm` model: JSON with the fields of vLLM's `SamplingParams`, whose values may be texts.
 * Sources: vLLM, `vllm/sampling_params.py`; Triton's vllm_backend, `TritonSamplingParams.from_dict`. Pure.
 */
import { isObject } from "../../core/json-object.ts";
import { MAX_LLM_RETURN_SEQUENCES, MAX_LLM_TOP_LOG_PROBS } from "../../core/limits.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Guide } from "../../engine/request/generate.ts";

/** As vLLM names them, with its defaults. */
export interface VllmSampling {
  readonly n: number;
  readonly temperature: number;
  readonly topP: number;
  /** 0 = all. */
  readonly topK: number;
  readonly minP: number;
  readonly seed: bigint | undefined;
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly repetitionPenalty: number;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly badWords: readonly string[];
  readonly ignoresEos: boolean;
  readonly includesStop: boolean;
  readonly skipsSpecialTokens: boolean;
  /** Undefined: none were asked for. */
  readonly logProbs: number | undefined;
  readonly logitBias: ReadonlyMap<number, number>;
  readonly guide: Guide | undefined;
  readonly loraName: string | undefined;
}

const DEFAULT_MAX_TOKENS = 16;
/** Such a temperature is greedy. */
const MIN_TEMPERATURE = 1e-5;
/** These change no output of the model's tensors. */
const WITHOUT_EFFECT: readonly string[] = [
  "detokenize",
  "output_kind",
  "prompt_logprobs",
  "spaces_between_special_tokens",
  "skip_clone",
];
const NOT_SUPPORTED: readonly string[] = [
  "allowed_token_ids",
  "best_of",
  "extra_args",
  "flat_logprobs",
  "length_penalty",
  "logits_processors",
  "truncate_prompt_tokens",
  "use_beam_search",
];

/** @throws ServerError naming the field */
export function readVllmSampling(values: Readonly<Record<string, unknown>>): VllmSampling {
  const reader = new FieldReader(values);
  const temperature = reader.float("temperature", 1, 0);
  const isGreedy = temperature < MIN_TEMPERATURE;
  const topK = reader.int("top_k", 0, -1);
  const seed = reader.int("seed", -1, Number.MIN_SAFE_INTEGER);
  const sampling: VllmSampling = {
    n: reader.int("n", 1, 1, MAX_LLM_RETURN_SEQUENCES),
    temperature: isGreedy ? 1 : temperature,
    topP: isGreedy ? 0 : reader.float("top_p", 1, 0, 1),
    topK: isGreedy ? 1 : Math.max(0, topK),
    minP: isGreedy ? 0 : reader.float("min_p", 0, 0, 1),
    seed: seed === -1 ? undefined : BigInt.asUintN(64, BigInt(seed)),
    maxTokens: reader.int("max_tokens", DEFAULT_MAX_TOKENS, 1),
    minTokens: reader.int("min_tokens", 0, 0),
    presencePenalty: reader.float("presence_penalty", 0, -2, 2),
    frequencyPenalty: reader.float("frequency_penalty", 0, -2, 2),
    repetitionPenalty: reader.float("repetition_penalty", 1, 0),
    stop: reader.texts("stop"),
    stopTokenIds: reader.ints("stop_token_ids"),
    badWords: reader.texts("bad_words"),
    ignoresEos: reader.flag("ignore_eos", false),
    includesStop: reader.flag("include_stop_str_in_output", false),
    skipsSpecialTokens: reader.flag("skip_special_tokens", true),
    logProbs: reader.has("logprobs") ? reader.int("logprobs", 0, 0, MAX_LLM_TOP_LOG_PROBS) : undefined,
    logitBias: reader.biases("logit_bias"),
    guide: readGuide(reader),
    loraName: reader.text("lora_name"),
  };
  if (isGreedy) for (const name of ["top_p", "min_p"]) reader.skip(name);
  reader.expectNoOthers();
  return sampling;
}

/** `structured_outputs`, and its older name. Its value is an object, or JSON of one. */
function readGuide(reader: FieldReader): Guide | undefined {
  const name = reader.has("structured_outputs") ? "structured_outputs" : "guided_decoding";
  const given = reader.object(name);
  if (given === undefined) return undefined;
  const said = Object.entries(given).filter(([, value]) => value !== null && value !== false);
  const kinds = said.filter(([key]) => GUIDES.has(key));
  const [only, ...more] = kinds;
  if (only === undefined || more.length > 0) {
    throw invalidArgument(`${name} must have one of ${[...GUIDES.keys()].join(", ")}, got ${said.map(([key]) => key)}`);
  }
  const [key, value] = only;
  const type = GUIDES.get(key) ?? "json";
  return { type, text: type === "json" ? "" : typeof value === "string" ? value : JSON.stringify(value) };
}

const GUIDES: ReadonlyMap<string, Guide["type"]> = new Map([
  ["json", "json_schema"],
  ["json_object", "json"],
  ["regex", "regex"],
  ["choice", "choice"],
  ["grammar", "ebnf_grammar"],
  ["structural_tag", "structural_tag"],
]);

/** Values as vLLM's backend takes them: "0.1" is a number, and null is not given. */
class FieldReader {
  readonly #values: Readonly<Record<string, unknown>>;
  readonly #read = new Set<string>();

  constructor(values: Readonly<Record<string, unknown>>) {
    this.#values = values;
  }

  has(name: string): boolean {
    return this.#get(name) !== undefined;
  }

  skip(name: string): void {
    this.#read.add(name);
  }

  int(name: string, byDefault: number, least: number, most: number = Number.MAX_SAFE_INTEGER): number {
    const value = this.#number(name, byDefault);
    if (!Number.isSafeInteger(value)) throw invalidArgument(`${name} must be an integer, got ${this.#shown(name)}.`);
    return this.#within(name, value, least, most);
  }

  float(name: string, byDefault: number, least: number, most: number = Number.MAX_VALUE): number {
    return this.#within(name, this.#number(name, byDefault), least, most);
  }

  flag(name: string, byDefault: boolean): boolean {
    const value = this.#get(name);
    if (value === undefined) return byDefault;
    if (typeof value === "boolean") return value;
    if (/^(true|1)$/i.test(String(value))) return true;
    if (/^(false|0|)$/i.test(String(value))) return false;
    throw invalidArgument(`${name} must be a boolean, got ${this.#shown(name)}.`);
  }

  text(name: string): string | undefined {
    const value = this.#get(name);
    if (value === undefined || typeof value === "string") return value;
    throw invalidArgument(`${name} must be a string, got ${this.#shown(name)}.`);
  }

  /** One text or a list. */
  texts(name: string): readonly string[] {
    const list = this.#list(name);
    if (list.every((text) => typeof text === "string")) return list.filter((text) => text !== "");
    throw invalidArgument(`${name} must be a string or a list of strings, got ${this.#shown(name)}.`);
  }

  ints(name: string): readonly number[] {
    const list = this.#list(name);
    if (list.every((id) => typeof id === "number") && list.every(Number.isSafeInteger)) return list;
    throw invalidArgument(`${name} must contain only integers, got ${this.#shown(name)}.`);
  }

  biases(name: string): ReadonlyMap<number, number> {
    const given = Object.entries(this.object(name) ?? {}).map(([id, bias]) => [Number(id), Number(bias)] as const);
    if (given.every(([id, bias]) => Number.isSafeInteger(id) && id >= 0 && Number.isFinite(bias)))
      return new Map(given);
    throw invalidArgument(`${name} must map token ids to numbers, got ${this.#shown(name)}.`);
  }

  object(name: string): Readonly<Record<string, unknown>> | undefined {
    const value = this.#get(name);
    if (value === undefined) return undefined;
    const parsed = typeof value === "string" ? parsedJson(value) : value;
    if (isObject(parsed)) return parsed;
    throw invalidArgument(`${name} must be a JSON object, got ${this.#shown(name)}.`);
  }

  /** Call last. @throws ServerError for a field that would else be ignored in silence */
  expectNoOthers(): void {
    for (const name of WITHOUT_EFFECT) this.#read.add(name);
    for (const [name, value] of Object.entries(this.#values)) {
      if (value === null || this.#read.has(name)) continue;
      if (NOT_SUPPORTED.includes(name)) {
        throw new ServerError("unsupported", `sampling parameter '${name}' is not supported by this engine`);
      }
      throw invalidArgument(`Unexpected keyword argument '${name}'`);
    }
  }

  #get(name: string): unknown {
    this.#read.add(name);
    const value = Object.hasOwn(this.#values, name) ? this.#values[name] : undefined;
    return value === null ? undefined : value;
  }

  #list(name: string): readonly unknown[] {
    const value = this.#get(name);
    if (value === undefined) return [];
    const parsed = typeof value === "string" && value.startsWith("[") ? (parsedJson(value) ?? value) : value;
    return Array.isArray(parsed) ? parsed : [parsed];
  }

  #number(name: string, byDefault: number): number {
    const value = this.#get(name);
    if (value === undefined) return byDefault;
    const isNumber = typeof value === "number" || (typeof value === "string" && value.trim() !== "");
    const number = isNumber ? Number(value) : Number.NaN;
    if (Number.isFinite(number)) return number;
    throw invalidArgument(`${name} must be a number, got ${this.#shown(name)}.`);
  }

  #within(name: string, value: number, least: number, most: number): number {
    if (value >= least && value <= most) return value;
    const range = most >= Number.MAX_SAFE_INTEGER ? `at least ${least}` : `in [${least}, ${most}]`;
    throw invalidArgument(`${name} must be ${range}, got ${value}.`);
  }

  #shown(name: string): string {
    return JSON.stringify(this.#values[name]);
  }
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
