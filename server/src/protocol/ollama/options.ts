/**
 * The member `options` of Ollama's requests. Options of its own runner, and of samplers that it has dropped, are checked and
 * change nothing; unknown ones are ignored, as Ollama does.
 * Sources: Ollama's Modelfile reference, "Valid Parameters and Values"; its `api/types.go`, `Options` and `Runner`.
 */
import { invalidParameter } from "../api/api-error.ts";
import type { JsonObject } from "../api/schema.ts";
import type { ChatRequest } from "../openai/chat/request.ts";

type Kind = "number" | "integer" | "boolean" | "texts";

interface Option {
  readonly kind: Kind;
  readonly isIgnored?: true;
}

const EXPECTED: Readonly<Record<Kind, string>> = {
  number: "a number",
  integer: "an integer",
  boolean: "a boolean",
  texts: "an array of strings",
};

export const OLLAMA_OPTIONS: Readonly<Record<string, Option>> = {
  num_predict: { kind: "integer" },
  temperature: { kind: "number" },
  top_p: { kind: "number" },
  top_k: { kind: "integer" },
  min_p: { kind: "number" },
  seed: { kind: "integer" },
  stop: { kind: "texts" },
  repeat_penalty: { kind: "number" },
  repeat_last_n: { kind: "integer" },
  presence_penalty: { kind: "number" },
  frequency_penalty: { kind: "number" },
  // The model's configuration decides on context, memory and devices.
  num_ctx: { kind: "integer", isIgnored: true },
  num_keep: { kind: "integer", isIgnored: true },
  num_batch: { kind: "integer", isIgnored: true },
  num_gpu: { kind: "integer", isIgnored: true },
  main_gpu: { kind: "integer", isIgnored: true },
  num_thread: { kind: "integer", isIgnored: true },
  use_mmap: { kind: "boolean", isIgnored: true },
  use_mlock: { kind: "boolean", isIgnored: true },
  numa: { kind: "boolean", isIgnored: true },
  low_vram: { kind: "boolean", isIgnored: true },
  // Samplers that the engine does not have.
  typical_p: { kind: "number", isIgnored: true },
  tfs_z: { kind: "number", isIgnored: true },
  mirostat: { kind: "integer", isIgnored: true },
  mirostat_tau: { kind: "number", isIgnored: true },
  mirostat_eta: { kind: "number", isIgnored: true },
  penalize_newline: { kind: "boolean", isIgnored: true },
};

type OptionFields = Pick<
  ChatRequest,
  | "max_tokens"
  | "temperature"
  | "top_p"
  | "top_k"
  | "min_p"
  | "repetition_penalty"
  | "presence_penalty"
  | "frequency_penalty"
  | "seed"
  | "stop"
>;

/** @throws ApiError naming the option */
export function optionFields(options: JsonObject): OptionFields {
  for (const [key, { kind }] of Object.entries(OLLAMA_OPTIONS)) expectKind(options[key], key, kind);
  const number = (key: string): number | undefined => numberOf(options[key]);
  const limit = number("num_predict");
  // A window of no tokens leaves nothing to penalize; other windows are the whole answer here.
  const penalty = (key: string): number | undefined => (number("repeat_last_n") === 0 ? undefined : number(key));
  return {
    // 0 and below stand for no limit.
    max_tokens: limit === undefined || limit <= 0 ? undefined : Math.floor(limit),
    temperature: number("temperature"),
    top_p: number("top_p"),
    top_k: number("top_k"),
    min_p: number("min_p"),
    repetition_penalty: penalty("repeat_penalty"),
    presence_penalty: penalty("presence_penalty"),
    frequency_penalty: penalty("frequency_penalty"),
    seed: seedOf(number("seed")),
    stop: stopOf(options.stop),
  };
}

/** Go reads any JSON number into an integer, and cuts its fraction off. */
function expectKind(value: unknown, key: string, kind: Kind): void {
  if (value === undefined || value === null) return;
  const isText = (each: unknown): boolean => typeof each === "string";
  const isRight: Readonly<Record<Kind, boolean>> = {
    number: typeof value === "number" && Number.isFinite(value),
    integer: typeof value === "number" && Number.isSafeInteger(Math.trunc(value)),
    boolean: typeof value === "boolean",
    texts: isText(value) || (Array.isArray(value) && value.every(isText)),
  };
  if (isRight[kind]) return;
  const text = `Invalid type for 'options.${key}': expected ${EXPECTED[kind]}.`;
  throw invalidParameter(`options.${key}`, "invalid_type", text);
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

/** Negative seeds stand for none. */
function seedOf(seed: number | undefined): number | undefined {
  return seed === undefined || seed < 0 ? undefined : Math.trunc(seed);
}

function stopOf(stop: unknown): readonly string[] | undefined {
  if (typeof stop === "string") return [stop];
  return Array.isArray(stop) ? stop.filter((each) => typeof each === "string") : undefined;
}
