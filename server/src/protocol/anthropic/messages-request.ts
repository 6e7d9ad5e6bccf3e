/** Body of POST /v1/messages and /v1/messages/count_tokens. Source: Anthropic's API reference, "Messages", "Count tokens". */
import { invalidParameter } from "../api/api-error.ts";
import {
  anyObject,
  anything,
  array,
  boolean,
  type Field,
  integer,
  isObject,
  type JsonObject,
  mapped,
  number,
  object,
  oneOf,
  optional,
  required,
  type Schema,
  string,
} from "../api/schema.ts";
import { readSystem, TURNS, type Turn } from "./conversation.ts";

export interface Thinking {
  readonly isOn: boolean;
  /** The block comes without its text. */
  readonly isOmitted: boolean;
  readonly budgetTokens: number | undefined;
}

/** Fields that decide the prompt. */
export interface PromptFields {
  readonly model: string;
  readonly messages: readonly Turn[];
  readonly system?: string | undefined;
  readonly tools?: readonly JsonObject[] | undefined;
  readonly tool_choice?: JsonObject | undefined;
  readonly thinking?: Thinking | undefined;
  readonly output_config?: JsonObject | undefined;
}

export interface MessagesRequest extends PromptFields {
  readonly max_tokens: number;
  readonly stop_sequences?: readonly string[] | undefined;
  readonly stream?: boolean | undefined;
  readonly temperature?: number | undefined;
  readonly top_p?: number | undefined;
  readonly top_k?: number | undefined;
  readonly metadata?: JsonObject | undefined;
  readonly service_tier?: "auto" | "standard_only" | undefined;
  readonly output_format?: JsonObject | undefined;
}

type FieldsOf<T> = { readonly [Key in keyof Required<T>]: Field<T[Key]> };

const MAX_TOOLS = 1024;
const MAX_STOPS = 64;
const MIN_BUDGET = 1024;

const PROMPT_FIELDS: FieldsOf<PromptFields> = {
  model: required(string()),
  messages: required(TURNS),
  system: optional(mapped(anything(), readSystem)),
  tools: optional(array(anyObject(), 0, MAX_TOOLS)),
  tool_choice: optional(anyObject()),
  thinking: optional(mapped(anyObject(), readThinking)),
  output_config: optional(anyObject()),
};

export const COUNT_TOKENS_REQUEST: Schema<PromptFields> = object<PromptFields>(PROMPT_FIELDS);

export const MESSAGES_REQUEST: Schema<MessagesRequest> = object<MessagesRequest>({
  ...PROMPT_FIELDS,
  max_tokens: required(integer(1)),
  stop_sequences: optional(array(string(), 0, MAX_STOPS)),
  stream: optional(boolean()),
  temperature: optional(number(0, 1)),
  top_p: optional(number(0, 1)),
  top_k: optional(integer(0)),
  metadata: optional(anyObject()),
  service_tier: optional(oneOf("auto", "standard_only")),
  output_format: optional(anyObject()),
});

/** @throws ApiError */
function readThinking(value: JsonObject, path: string): Thinking {
  const type = oneOf("enabled", "disabled", "adaptive", "between_tools").read(value.type, `${path}.type`);
  const isOmitted = value.display === "omitted";
  if (type !== "enabled") return { isOn: type !== "disabled", isOmitted, budgetTokens: undefined };
  const budgetTokens = integer(MIN_BUDGET).read(value.budget_tokens, `${path}.budget_tokens`);
  return { isOn: true, isOmitted, budgetTokens };
}

/** The form of the whole answer: `output_config.format`, or `output_format` of older clients. @throws ApiError */
export function formatOf({ output_config: config, output_format: older }: MessagesRequest): JsonObject | undefined {
  const format = config?.format ?? older;
  if (format === undefined || format === null) return undefined;
  if (isObject(format) && format.type === "json_schema" && isObject(format.schema)) return format.schema;
  throw invalidParameter(
    "output_config.format",
    "invalid_value",
    "Invalid 'output_config.format': expected type 'json_schema' with a schema.",
  );
}
