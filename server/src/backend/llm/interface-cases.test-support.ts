/** The effect of each input of the engine model on the example model: requests, and their expected results. */
import assert from "node:assert/strict";
import { numberToFp16 } from "../../core/fp16.ts";
import type { Tensor } from "../../core/tensor.ts";
import { type Answer, GREEDY, HIDDEN, NUM_TOKENS, PROMPT, VOCABULARY } from "./interface.test-support.ts";
import { bool, fp32, int32, prompt, text } from "./llm.test-support.ts";

const [FIRST = 0, SECOND = 0, THIRD = 0] = GREEDY;

const u64 = (name: string, shape: readonly number[], ...values: bigint[]): Tensor => ({
  name,
  datatype: "UINT64",
  shape,
  data: new Uint8Array(BigUint64Array.from(values).buffer),
});
const half = (name: string, shape: readonly number[], values: readonly number[]): Tensor => ({
  name,
  datatype: "FP16",
  shape,
  data: new Uint8Array(Uint16Array.from(values, numberToFp16).buffer),
});
const seed = (value: bigint): Tensor => u64("random_seed", [1], value);
const topK = (k: number): Tensor => int32("runtime_top_k", [1], k);
const hot = fp32("temperature", [1], 3);
const perf = bool("return_perf_metrics", [1], true);
const base = (...more: Tensor[]): Tensor[] => prompt(PROMPT, NUM_TOKENS, ...more);
/** Sampled, the same at every run. */
const drawn = (...more: Tensor[]): Tensor[] => base(hot, seed(7n), ...more);
const beams = (...more: Tensor[]): Tensor[] => base(int32("beam_width", [1], 3), ...more);
/** Longer than two cache blocks, so that a second time finds some. */
const LONG = Array.from({ length: 40 }, (_, i) => 200 + i);
const long = (...more: Tensor[]): Tensor[] => prompt(LONG, 1, perf, ...more);
const bias = new Array<number>(VOCABULARY).fill(0);
bias[THIRD] = 1000;
const rows = (count: number): Tensor =>
  half("prompt_embedding_table", [1, count, HIDDEN], new Array<number>(count * HIDDEN).fill(0.01));
const virtual = (...more: Tensor[]): Tensor[] => prompt([...PROMPT, VOCABULARY, VOCABULARY + 1], 2, ...more);

type Expect =
  | RegExp
  | ((answer: Answer, again: (inputs: readonly Tensor[]) => Promise<Answer>) => void | Promise<void>);
export type Case = readonly [names: string, inputs: readonly Tensor[], expected: Expect];

/** The same tokens as without the input. */
const greedy = ({ ids }: Answer): void => assert.deepEqual(ids, GREEDY);
/** Other tokens than without it. */
const other = ({ ids }: Answer): void => {
  assert.equal(ids.length, NUM_TOKENS);
  assert.notDeepEqual(ids, GREEDY);
};
const same =
  (inputs: readonly Tensor[]): Expect =>
  async ({ ids }, again) =>
    assert.deepEqual(ids, (await again(inputs)).ids);
const different =
  (inputs: readonly Tensor[]): Expect =>
  async ({ ids }, again) =>
    assert.notDeepEqual(ids, (await again(inputs)).ids);

export const CASES: readonly Case[] = [
  ["input_ids request_output_len", base(), greedy],
  [
    "input_lengths",
    [
      int32("input_ids", [1, 12], ...PROMPT, 9, 9),
      int32("input_lengths", [1], 10),
      int32("request_output_len", [1], 8),
    ],
    greedy,
  ],
  [
    "num_return_sequences",
    base(int32("num_return_sequences", [1], 2)),
    ({ responses }) => assert.equal(responses.length, 2),
  ],
  [
    "draft_input_ids",
    base(int32("draft_input_ids", [1, 3], FIRST, SECOND, 9), perf),
    (answer) => {
      greedy(answer);
      assert.deepEqual(answer.numbers("total_draft_tokens"), [3]);
      assert.deepEqual(answer.numbers("total_accepted_draft_tokens"), [2]);
    },
  ],
  [
    "draft_logits",
    base(int32("draft_input_ids", [1, 1], 5), fp32("draft_logits", [1, 2, 1], 0, 0)),
    /'draft_logits' has 2 rows/,
  ],
  [
    "draft_acceptance_threshold",
    base(int32("draft_input_ids", [1, 1], FIRST), fp32("draft_acceptance_threshold", [1], 0.5)),
    greedy,
  ],
  ["end_id", base(int32("end_id", [1], THIRD)), ({ ids }) => assert.deepEqual(ids, [FIRST, SECOND])],
  ["pad_id", base(int32("pad_id", [1], 3)), greedy],
  [
    "stop_words_list",
    base(int32("stop_words_list", [1, 2, 1], SECOND, 1)),
    ({ ids }) => assert.deepEqual(ids, [FIRST, SECOND]),
  ],
  [
    "bad_words_list",
    base(int32("bad_words_list", [1, 2, 1], SECOND, 1)),
    ({ ids }) => assert.equal(ids.includes(SECOND), false),
  ],
  [
    "embedding_bias",
    base(fp32("embedding_bias", [1, VOCABULARY], ...bias)),
    ({ ids }) => assert.deepEqual(new Set(ids), new Set([THIRD])),
  ],
  ["beam_width", beams(), (answer) => assert.deepEqual(answer.shape("output_ids"), [1, 3, NUM_TOKENS])],
  [
    "temperature",
    base(fp32("temperature", [1], 50), topK(VOCABULARY), seed(1n)),
    different(base(fp32("temperature", [1], 0.01), topK(VOCABULARY), seed(1n))),
  ],
  ["temperature", base(fp32("temperature", [1], -1)), /temperature is -1, expected at least 0/],
  ["runtime_top_k", drawn(topK(50)), other],
  ["runtime_top_k", base(topK(-1)), /top_k is -1/],
  ["runtime_top_p", drawn(fp32("runtime_top_p", [1], 0.99)), other],
  ["runtime_top_p", drawn(fp32("runtime_top_p", [1], 1e-6)), greedy],
  ["runtime_min_p", drawn(fp32("runtime_min_p", [1], 1)), greedy],
  [
    "runtime_top_p_decay",
    drawn(fp32("runtime_top_p", [1], 0.999), fp32("runtime_top_p_decay", [1], 1e-6)),
    different(drawn(fp32("runtime_top_p", [1], 0.999))),
  ],
  [
    "runtime_top_p_min",
    drawn(
      fp32("runtime_top_p", [1], 0.999),
      fp32("runtime_top_p_decay", [1], 1e-6),
      fp32("runtime_top_p_min", [1], 0.999),
    ),
    same(drawn(fp32("runtime_top_p", [1], 0.999))),
  ],
  [
    "runtime_top_p_reset_ids",
    drawn(fp32("runtime_top_p", [1], 0.999), fp32("runtime_top_p_decay", [1], 1e-6)),
    async ({ ids }, again) => {
      const reset = int32("runtime_top_p_reset_ids", [1], ids[0] ?? 0);
      const decayed = [fp32("runtime_top_p", [1], 0.999), fp32("runtime_top_p_decay", [1], 1e-6)];
      const free = await again(drawn(fp32("runtime_top_p", [1], 0.999)));
      assert.deepEqual((await again(drawn(...decayed, reset))).ids.slice(0, 2), free.ids.slice(0, 2));
    },
  ],
  ["len_penalty", beams(fp32("len_penalty", [1], Number.NaN)), /len_penalty is not a number/],
  [
    "early_stopping",
    beams(bool("early_stopping", [1], false)),
    (answer) => assert.equal(answer.shape("output_ids")[1], 3),
  ],
  ["beam_search_diversity_rate", beams(fp32("beam_search_diversity_rate", [1], 20)), different(beams())],
  ["repetition_penalty", base(fp32("repetition_penalty", [1], 20)), other],
  ["presence_penalty", base(fp32("presence_penalty", [1], 20)), other],
  ["frequency_penalty", base(fp32("frequency_penalty", [1], 20)), other],
  [
    "prompt_ignore_length",
    base(fp32("presence_penalty", [1], 20), int32("prompt_ignore_length", [1], PROMPT.length)),
    different(base(fp32("presence_penalty", [1], 20))),
  ],
  [
    "min_length",
    base(int32("end_id", [1], THIRD), int32("min_length", [1], 6)),
    ({ ids }) => assert.ok(ids.length >= 6),
  ],
  [
    "min_tokens",
    base(int32("end_id", [1], THIRD), int32("min_tokens", [1], 6)),
    same(base(int32("end_id", [1], THIRD), int32("min_length", [1], 6))),
  ],
  [
    "no_repeat_ngram_size",
    base(int32("no_repeat_ngram_size", [1], 1)),
    ({ ids }) => assert.equal(new Set([...ids, ...PROMPT]).size, 8 + new Set(PROMPT).size),
  ],
  ["random_seed", drawn(topK(50)), different(base(hot, topK(50), seed(8n)))],
  ["seed", base(hot, topK(50), u64("seed", [1], 7n)), same(drawn(topK(50)))],
  [
    "return_log_probs",
    base(bool("return_log_probs", [1], true)),
    (answer) => {
      assert.ok(answer.numbers("output_log_probs").every((value) => value < 0));
      const sum = answer.numbers("output_log_probs").reduce((total, value) => total + value, 0);
      assert.ok(Math.abs((answer.numbers("cum_log_probs")[0] ?? 0) - sum) < 1e-3);
    },
  ],
  [
    "num_top_log_probs",
    base(int32("num_top_log_probs", [1], 3)),
    (answer) => {
      assert.deepEqual(answer.shape("top_log_probs"), [1, NUM_TOKENS, 3]);
      assert.deepEqual(
        answer.numbers("top_log_prob_ids").filter((_, i) => i % 3 === 0),
        GREEDY,
      );
    },
  ],
  [
    "return_prompt_log_probs",
    base(bool("return_prompt_log_probs", [1], true), int32("num_top_log_probs", [1], 2)),
    (answer) => {
      assert.deepEqual(answer.shape("prompt_log_probs"), [1, PROMPT.length - 1]);
      assert.deepEqual(answer.shape("prompt_top_log_probs"), [1, PROMPT.length - 1, 2]);
      assert.deepEqual(answer.shape("prompt_top_log_prob_ids"), [1, PROMPT.length - 1, 2]);
    },
  ],
  [
    "return_context_logits",
    base(bool("return_context_logits", [1], true)),
    (answer) => assert.deepEqual(answer.shape("context_logits"), [1, PROMPT.length, VOCABULARY]),
  ],
  [
    "return_generation_logits",
    base(bool("return_generation_logits", [1], true)),
    (answer) => assert.deepEqual(answer.shape("generation_logits"), [1, 1, NUM_TOKENS, VOCABULARY]),
  ],
  [
    "return_perf_metrics",
    base(perf),
    (answer) => {
      const times = ["arrival_time_ns", "first_scheduled_time_ns", "first_token_time_ns", "last_token_time_ns"].map(
        (output) => answer.numbers(output)[0] ?? 0,
      );
      assert.ok((times[0] ?? 0) > 0);
      assert.deepEqual(
        [...times].sort((a, b) => a - b),
        times,
      );
      assert.deepEqual(answer.numbers("acceptance_rate"), [0]);
    },
  ],
  [
    "return_kv_cache_reuse_stats",
    base(bool("return_kv_cache_reuse_stats", [1], true)),
    (answer) => {
      const [fresh = 0, reused = 0, total = 0] = ["alloc_new", "reused", "alloc_total"].map(
        (part) => answer.numbers(`kv_cache_${part}_blocks`)[0],
      );
      assert.ok(total > 0 && fresh + reused === total, `${fresh} + ${reused} = ${total}`);
      assert.deepEqual(answer.numbers("arrival_time_ns"), [0]);
    },
  ],
  [
    "return_num_input_tokens",
    base(bool("return_num_input_tokens", [1], true)),
    (answer) => {
      assert.deepEqual(answer.numbers("num_input_tokens"), [PROMPT.length]);
      assert.deepEqual(answer.numbers("num_output_tokens"), [0]);
    },
  ],
  [
    "return_num_output_tokens",
    base(bool("return_num_output_tokens", [1], true)),
    (answer) => assert.deepEqual(answer.numbers("num_output_tokens"), [NUM_TOKENS]),
  ],
  [
    "exclude_input_in_output",
    base(bool("exclude_input_in_output", [1], false)),
    (answer) => {
      assert.deepEqual(answer.ids, [...PROMPT, ...GREEDY]);
      assert.deepEqual(answer.numbers("sequence_length"), [PROMPT.length + NUM_TOKENS]);
    },
  ],
  ["stop", base(bool("stop", [1], true)), /Cannot send stop request without specifying a request_id/],
  [
    "streaming",
    base(bool("streaming", [1], true)),
    (answer) => {
      greedy(answer);
      assert.equal(answer.responses.length, NUM_TOKENS);
    },
  ],
  [
    "prompt_embedding_table prompt_vocab_size",
    virtual(rows(2), int32("prompt_vocab_size", [1], 2)),
    ({ ids }) => assert.equal(ids.length, 2),
  ],
  ["prompt_embedding_table", virtual(), /input id 6144 at position 10/],
  [
    "prompt_vocab_size",
    virtual(rows(2), int32("prompt_vocab_size", [1], 3)),
    /'prompt_vocab_size' is 3, expected 0 to 2/,
  ],
  ["prompt_vocab_size", virtual(rows(2), int32("prompt_vocab_size", [1], 1)), /input id 6145 at position 11/],
  [
    "return_perf_metrics",
    long(),
    async (_, again) => assert.deepEqual((await again(long())).numbers("kv_cache_reused_blocks"), [2]),
  ],
  [
    "prompt_table_extra_ids",
    long(u64("prompt_table_extra_ids", [1, LONG.length], ...LONG.map(() => 5n))),
    (answer) => assert.deepEqual(answer.numbers("kv_cache_reused_blocks"), [0]),
  ],
  [
    "cache_salt",
    long(text("cache_salt", "tenant")),
    (answer) => assert.deepEqual(answer.numbers("kv_cache_reused_blocks"), [0]),
  ],
  ["lora_task_id", base(u64("lora_task_id", [1], 77n)), /77.*not found in cache/],
  ["lora_weights", base(half("lora_weights", [1, 1, 4], [1, 1, 1, 1])), /'lora_weights' needs 'lora_task_id'/],
  ["lora_config", base(int32("lora_config", [1, 1, 3], 0, 0, 1)), /'lora_config' needs 'lora_task_id'/],
  ["lora_name", base(text("lora_name", "nobody")), /nobody/],
  ["lora_path", base(text("lora_path", "/nowhere")), /nowhere|lora_dir/],
  ["lora_ckpt_source", base(text("lora_ckpt_source", "nemo")), /'lora_ckpt_source' is 'nemo', expected 'hf'/],
  [
    "retention_token_range_starts retention_token_range_ends retention_token_range_priorities retention_token_range_durations_ms",
    base(
      int32("retention_token_range_starts", [1, 1], 0),
      int32("retention_token_range_ends", [1, 1], -1),
      int32("retention_token_range_priorities", [1, 1], 90),
      int32("retention_token_range_durations_ms", [1, 1], 1000),
    ),
    greedy,
  ],
  ["retention_token_range_starts", base(int32("retention_token_range_starts", [1, 1], 0)), /expected as many each/],
  [
    "retention_decode_priority retention_decode_duration_ms",
    base(int32("retention_decode_priority", [1, 1], 50), int32("retention_decode_duration_ms", [1, 1], -1)),
    greedy,
  ],
  [
    "guided_decoding_guide_type guided_decoding_guide",
    base(text("guided_decoding_guide_type", "regex"), text("guided_decoding_guide", "a|b")),
    ({ ids }) => assert.equal(ids.length, 1),
  ],
  [
    "guided_decoding_guide_type",
    base(text("guided_decoding_guide_type", "poem")),
    /'guided_decoding_guide_type' is 'poem'/,
  ],
  [
    "logits_post_processor_name",
    base(text("logits_post_processor_name", "x")),
    /no logits post-processor is named 'x'/,
  ],
  [
    "lookahead_window_size lookahead_ngram_size lookahead_verification_set_size",
    base(
      int32("lookahead_window_size", [1, 1], 3),
      int32("lookahead_ngram_size", [1, 1], 3),
      int32("lookahead_verification_set_size", [1, 1], 3),
    ),
    greedy,
  ],
  [
    "decoder_input_ids decoder_input_lengths",
    base(int32("decoder_input_ids", [1, 1], 0), int32("decoder_input_lengths", [1], 1)),
    greedy,
  ],
  ["decoder_input_ids", base(int32("decoder_input_ids", [1, 2], 5, 6)), /'decoder_input_ids' has 2 tokens/],
  [
    "encoder_input_features",
    base(half("encoder_input_features", [1, 1, 1], [1])),
    /'encoder_input_features' is not supported/,
  ],
  ["encoder_output_lengths", base(int32("encoder_output_lengths", [1], 4)), greedy],
  [
    "cross_attention_mask",
    base(bool("cross_attention_mask", [1, 1, 1], true)),
    /'cross_attention_mask' is not supported/,
  ],
  ["skip_cross_attn_blocks", base(bool("skip_cross_attn_blocks", [1, 1], true)), greedy],
  ["mrope_rotary_cos_sin", base(fp32("mrope_rotary_cos_sin", [1, 2], 1, 1)), /'mrope_rotary_cos_sin' is not supported/],
  [
    "mrope_position_deltas",
    base({ ...u64("mrope_position_deltas", [1, 1], 1n), datatype: "INT64" }),
    /'mrope_position_deltas' is not supported/,
  ],
  [
    "context_phase_params",
    base({ name: "context_phase_params", datatype: "UINT8", shape: [1, 1], data: Uint8Array.of(1) }),
    /'context_phase_params' is not supported/,
  ],
];
