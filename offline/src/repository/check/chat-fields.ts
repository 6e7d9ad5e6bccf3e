/**
 * Which fields of a chat request reach a model of text, by the names of its inputs, and what becomes of the others.
 * The rules are those of `text-model/request-inputs.ts`. Pure.
 */
import type { InputRole } from "@nereid/server/text-model/tensor-names";
import type { TextSignature } from "@nereid/server/text-model/text-signature";

export interface ChatFields {
  /** `field -> 'input'`. */
  readonly carried: readonly string[];
  /** Fields that a request may have and that change nothing. */
  readonly ignored: readonly string[];
  /** Fields that a request may not have. */
  readonly refused: readonly string[];
}

const SAMPLING: readonly (readonly [field: string, role: InputRole])[] = [
  ["temperature", "temperature"],
  ["top_p", "topP"],
  ["top_k", "topK"],
  ["min_p", "minP"],
  ["repetition_penalty", "repetitionPenalty"],
  ["presence_penalty", "presencePenalty"],
  ["frequency_penalty", "frequencyPenalty"],
  ["seed", "seed"],
];
const NEEDED: readonly (readonly [field: string, role: InputRole])[] = [
  ["image_url", "image"],
  ["min_tokens", "minTokens"],
  ["ignore_eos", "endId"],
  ["bad_words", "badWords"],
  ["response_format", "guideType"],
];
/** Only a model that gives token ids, or takes vLLM's parameters, can honour these. */
const OF_TOKENS: readonly string[] = ["logprobs", "logit_bias", "stop_token_ids"];
const SAMPLING_JSON_FIELDS = "max_tokens, temperature and other sampling fields, response_format, logprobs";

export function chatFields({ inputs, jsonInputs, samples }: TextSignature): ChatFields {
  const carried = [...jsonInputs.map(({ name }) => `${name} -> '${name}'`)];
  const [ignored, refused]: [string[], string[]] = [[], []];
  const take = (field: string, role: InputRole, others: string[]): void => {
    const input = inputs.get(role);
    if (input === undefined) others.push(field);
    else carried.push(`${field} -> '${input.name}'`);
  };
  const json = inputs.get("samplingJson");
  if (json !== undefined)
    return { carried: [...carried, `${SAMPLING_JSON_FIELDS} -> '${json.name}'`], ignored, refused };
  take("max_tokens", "maxTokens", ignored);
  for (const [field, role] of SAMPLING) take(field, role, samples ? refused : ignored);
  for (const [field, role] of NEEDED) {
    if (field !== "response_format" || !jsonInputs.some(({ name }) => name === field)) take(field, role, refused);
  }
  return { carried, ignored, refused: [...refused, ...OF_TOKENS] };
}
