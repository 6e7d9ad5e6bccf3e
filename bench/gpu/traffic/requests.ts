/** The requests that traffic is made of: prompts of tokens, and one change of the request for each processor of logits. */
import type { Asked } from "./load.ts";

export interface Size {
  readonly input: number;
  readonly output: number;
  readonly vocabulary: number;
}

export type Fields = Readonly<Record<string, unknown>>;

/** A row of the table: fields that all 64 requests have, or one of them. */
export interface Row {
  readonly name: string;
  readonly who: "all" | "one";
  readonly fields: (client: number, size: Size) => Fields;
}

export function generateRequest({ input, output, vocabulary }: Size, client: number, fields: Fields = {}): Asked {
  const tokens = Array.from({ length: input }, (_, at) => 300 + ((client * 7919 + at * 31) % (vocabulary - 300)));
  const base = { input_ids: tokens, input_lengths: input, request_output_len: output, end_id: -1 };
  return { model: "tensorrt_llm", body: JSON.stringify({ ...base, ...fields }) };
}

const SAMPLED = { temperature: 0.8, runtime_top_p: 0.9 };

function sampled(client: number, more: Fields = {}): Fields {
  return { ...SAMPLED, random_seed: client + 1, ...more };
}

/** 20 properties, whose names no other client has. Strings are so long that no answer ends before the others. */
export function schemaOf(client: number): string {
  const types = [
    { type: "string", minLength: 400 },
    { type: "integer" },
    { type: "boolean" },
    { enum: ["low", "mid", "high"] },
  ];
  const properties = Object.fromEntries(
    Array.from({ length: 20 }, (_, k) => [`field_${client}_${k}`, types[(client + k) % types.length]]),
  );
  return JSON.stringify({ type: "object", properties, required: Object.keys(properties), additionalProperties: false });
}

/** Guides end by themselves, so that an end id is needed. */
function guided(client: number): Fields {
  return { end_id: 1, guided_decoding_guide_type: "json_schema", guided_decoding_guide: schemaOf(client) };
}

function topLogProbs(count: number): Fields {
  return { return_log_probs: true, num_top_log_probs: count };
}

const PENALTIES = { repetition_penalty: 1.2, presence_penalty: 0.3, frequency_penalty: 0.2 };

export const ROWS: readonly Row[] = [
  { name: "temperature 0.8, top-p 0.9", who: "all", fields: (client) => sampled(client) },
  { name: "temperature 0.8, top-p 0.9, top-k 50", who: "all", fields: (c) => sampled(c, { runtime_top_k: 50 }) },
  { name: "three penalties", who: "all", fields: () => PENALTIES },
  { name: "three penalties, sampled", who: "all", fields: (client) => sampled(client, PENALTIES) },
  { name: "JSON schema of 20 fields, each its own", who: "all", fields: guided },
  { name: "5 top log-probabilities", who: "all", fields: () => topLogProbs(5) },
  { name: "log-probabilities", who: "all", fields: () => ({ return_log_probs: true }) },
  { name: "temperature", who: "one", fields: (client) => ({ temperature: 0.8, random_seed: client + 1 }) },
  { name: "top-p", who: "one", fields: (client) => sampled(client) },
  { name: "top-k 50", who: "one", fields: (client) => ({ ...sampled(client), runtime_top_k: 50 }) },
  { name: "min-p", who: "one", fields: (client) => ({ ...sampled(client), runtime_min_p: 0.05 }) },
  {
    name: "top-p decay",
    who: "one",
    fields: (client) => ({ ...sampled(client), runtime_top_p_decay: 0.99, runtime_top_p_min: 0.5 }),
  },
  { name: "repetition penalty", who: "one", fields: () => ({ repetition_penalty: 1.2 }) },
  { name: "presence penalty", who: "one", fields: () => ({ presence_penalty: 0.5 }) },
  { name: "frequency penalty", who: "one", fields: () => ({ frequency_penalty: 0.5 }) },
  { name: "minimum length", who: "one", fields: () => ({ min_tokens: 64, end_id: 2 }) },
  { name: "bad words of one token", who: "one", fields: () => ({ bad_words_list: [10, 11, 1, 2] }) },
  { name: "bad words of two tokens", who: "one", fields: () => ({ bad_words_list: [10, 11, 2, -1] }) },
  { name: "no repeated n-grams", who: "one", fields: () => ({ no_repeat_ngram_size: 3 }) },
  { name: "stop words", who: "one", fields: () => ({ stop_words_list: [10, 11, 2, -1] }) },
  {
    name: "logit bias",
    who: "one",
    fields: (_client, { vocabulary }) => ({ embedding_bias: Array.from({ length: vocabulary }, (_, id) => id % 2) }),
  },
  { name: "log-probabilities", who: "one", fields: () => ({ return_log_probs: true }) },
  { name: "5 top log-probabilities", who: "one", fields: () => topLogProbs(5) },
  { name: "JSON schema", who: "one", fields: guided },
  {
    name: "regular expression",
    who: "one",
    fields: () => ({ end_id: 1, guided_decoding_guide_type: "regex", guided_decoding_guide: "([a-z]{3,9} )+" }),
  },
  { name: "two sequences", who: "one", fields: (client) => ({ ...sampled(client), num_return_sequences: 2 }) },
  { name: "4 beams", who: "one", fields: () => ({ beam_width: 4 }) },
  {
    name: "all logits of 8 tokens",
    who: "one",
    fields: () => ({ return_generation_logits: true, request_output_len: 8 }),
  },
];
