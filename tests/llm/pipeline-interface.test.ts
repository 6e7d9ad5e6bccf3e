/** Every input of the two pipeline models over HTTP, under the names of every era: what it does, or the words that refuse it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { parseModelConfigText } from "../../server/src/config/model/model-config.ts";
import {
  decode,
  encode,
  openSession,
  rawCall,
  STREAM_INFER,
} from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { createPipeline, templateOf } from "../support/llm-pipeline.ts";
import type { ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const GOLDEN = fileURLToPath(new URL("../../examples/nereid-tiny/golden_text.json", import.meta.url));
const [golden] = JSON.parse(readFileSync(GOLDEN, "utf8")) as { prompt: string; text: string; output_ids: number[] }[];
const PROMPT = golden?.prompt ?? "";
const THIRD = golden?.output_ids[2] ?? 0;
const MODELS = ["ensemble", "tensorrt_llm_bls"] as const;
const HIDDEN = 384;
const VOCABULARY = 6144;

let repository: ModelRepository;
let server: ServerProcess;

before(async () => {
  repository = await createPipeline({ tensorrt_llm: "exclude_input_in_output:True,max_beam_width:4" });
  server = await startServerProcess({ repositories: [repository.path] });
});
after(async () => {
  await server.stop();
  await repository[Symbol.asyncDispose]();
});

type Reply = Readonly<Record<string, unknown>> & { readonly text_output: string };

async function ask(model: string, body: object): Promise<Reply> {
  const json = JSON.stringify({ text_input: PROMPT, max_tokens: 8, ...body });
  const reply = await fetch(`${server.baseUrl}/v2/models/${model}/generate`, { method: "POST", body: json });
  return (await reply.json()) as Reply;
}

async function askForMany(model: string, body: object): Promise<Reply[]> {
  const json = JSON.stringify({ text_input: PROMPT, max_tokens: 8, ...body });
  const reply = await fetch(`${server.baseUrl}/v2/models/${model}/generate_stream`, { method: "POST", body: json });
  return [...(await reply.text()).matchAll(/^data: (.*)$/gm)].map(([, event = ""]) => JSON.parse(event) as Reply);
}

type Check = RegExp | ((reply: Reply, base: string, model: string) => void | Promise<void>);
type Case = readonly [names: string, body: Readonly<Record<string, unknown>>, check: Check];

const same = ({ text_output }: Reply, base: string): void => assert.equal(text_output, base);
const other = ({ text_output }: Reply, base: string): void => {
  assert.equal(typeof text_output, "string");
  assert.notEqual(text_output, base);
};
const sampled = { temperature: 3, top_k: 50 };
const lettersOf = (text: string): string => text.replace(/[^a-z]/gi, "");

const CASES: readonly Case[] = [
  [
    "text_input max_tokens",
    {},
    ({ text_output }) => assert.ok(golden?.text.startsWith(text_output) === true && text_output !== ""),
  ],
  ["decoder_text_input", { decoder_text_input: "two words" }, /'decoder_input_ids' has \d+ tokens/],
  ["bad_words", { bad_words: "" }, same],
  ["bad_words", { bad_words: [""] }, same],
  ["bad_words", { bad_words: [" group", "of"] }, ({ text_output }) => assert.doesNotMatch(text_output, / group/)],
  ["bad_words", { bad_words: " group" }, ({ text_output }) => assert.doesNotMatch(text_output, / group/)],
  ["stop_words", { stop_words: "" }, same],
  ["stop_words", { stop_words: [""] }, same],
  ["stop_words", { stop_words: ["group"] }, ({ text_output }) => assert.match(text_output, /group$/)],
  ["stop_words", { stop_words: "p of" }, ({ text_output }) => assert.match(text_output, /group of$/)],
  ["end_id", { end_id: THIRD }, other],
  ["pad_id", { pad_id: 3 }, same],
  ["top_k temperature", { ...sampled, seed: 3 }, other],
  ["top_p", { temperature: 3, top_p: 0.99, seed: 3 }, other],
  ["top_p", { temperature: 3, top_p: 0.000001, seed: 3 }, same],
  ["length_penalty", { beam_width: 2, length_penalty: 2 }, ({ text_output }) => assert.equal(text_output.length, 2)],
  ["repetition_penalty", { repetition_penalty: 20 }, other],
  ["presence_penalty", { presence_penalty: 20 }, other],
  ["frequency_penalty", { frequency_penalty: 20 }, other],
  [
    "min_tokens",
    { end_id: THIRD, min_tokens: 8 },
    async (reply, _, model) =>
      assert.equal(reply.text_output, (await ask(model, { end_id: THIRD, min_length: 8 })).text_output),
  ],
  [
    "min_length",
    { end_id: THIRD, min_length: 8 },
    async ({ text_output }, _, model) =>
      assert.ok(text_output.length > (await ask(model, { end_id: THIRD })).text_output.length),
  ],
  [
    "seed",
    { ...sampled, seed: 5 },
    async (reply, _, model) =>
      assert.equal(reply.text_output, (await ask(model, { ...sampled, random_seed: 5 })).text_output),
  ],
  [
    "random_seed",
    { ...sampled, random_seed: 5 },
    async (reply, _, model) =>
      assert.notEqual(reply.text_output, (await ask(model, { ...sampled, random_seed: 6 })).text_output),
  ],
  [
    "return_log_probs",
    { return_log_probs: true },
    (reply) => {
      assert.ok(Number(reply.cum_log_probs) < 0);
      assert.equal((reply.output_log_probs as number[]).length, 8);
    },
  ],
  [
    "return_context_logits",
    { return_context_logits: true, max_tokens: 1 },
    (reply) => assert.equal((reply.context_logits as number[]).length % VOCABULARY, 0),
  ],
  [
    "return_generation_logits",
    { return_generation_logits: true, max_tokens: 2 },
    (reply) => assert.equal((reply.generation_logits as number[]).length, 2 * VOCABULARY),
  ],
  [
    "return_perf_metrics",
    { return_perf_metrics: true },
    (reply) => {
      assert.ok(
        Number(reply.arrival_time_ns) > 0 && Number(reply.last_token_time_ns) >= Number(reply.first_token_time_ns),
      );
      assert.equal(reply.total_draft_tokens, 0);
    },
  ],
  [
    "return_kv_cache_reuse_stats",
    { return_kv_cache_reuse_stats: true },
    (reply) => assert.ok(Number(reply.kv_cache_alloc_total_blocks) > 0),
  ],
  [
    "return_num_input_tokens return_num_output_tokens",
    { return_num_input_tokens: true, return_num_output_tokens: true },
    (reply) => assert.deepEqual([reply.num_input_tokens, reply.num_output_tokens], [10, 8]),
  ],
  [
    "exclude_input_in_output",
    { exclude_input_in_output: false },
    ({ text_output }, base) => {
      assert.ok(text_output.endsWith(base));
      assert.match(lettersOf(text_output), /^writeastoryaboutboats/);
    },
  ],
  [
    "num_return_sequences",
    { num_return_sequences: 1 },
    async (_, __, model) => {
      const replies = await askForMany(model, { ...sampled, num_return_sequences: 3 });
      assert.deepEqual(replies.map(({ sequence_index }) => sequence_index).sort(), [0, 1, 2]);
    },
  ],
  [
    "beam_width",
    { beam_width: 3 },
    ({ text_output, cum_log_probs }) =>
      assert.deepEqual([text_output.length, (cum_log_probs as number[]).length], [3, 3]),
  ],
  [
    "stream",
    { stream: true },
    async (reply, base, model) => {
      assert.equal(reply.text_output, base);
      const replies = await askForMany(model, { stream: true });
      assert.equal(replies.length, 8);
      assert.equal(replies.map(({ text_output }) => text_output).join(""), base);
    },
  ],
  ["prompt_table_extra_id", { prompt_table_extra_id: 5 }, same],
  [
    "embedding_bias_words embedding_bias_weights",
    { embedding_bias_words: [" boat"], embedding_bias_weights: [1000] },
    ({ text_output }) => assert.match(text_output, /^(?: bo|at)+$/),
  ],
  [
    "embedding_bias_words",
    { embedding_bias_words: ["a", "b"], embedding_bias_weights: [1] },
    /must have the same length, got 2 and 1/,
  ],
  ["lora_task_id", { lora_task_id: 77 }, /77.*not found in cache/],
  ["lora_config", { lora_config: [0, 0, 1] }, /'lora_config' needs 'lora_task_id'/],
  ["lora_name", { lora_name: "nobody" }, /nobody/],
  ["cache_salt", { cache_salt: "tenant" }, same],
  [
    "guided_decoding_guide_type guided_decoding_guide",
    { guided_decoding_guide_type: "regex", guided_decoding_guide: "[0-9]{3}" },
    ({ text_output }) => assert.match(text_output, /^[0-9]{3}$/),
  ],
];

const OF_BLS: readonly Case[] = [
  ["num_draft_tokens", { num_draft_tokens: 4 }, /cannot perform speculative decoding without draft model/],
  ["use_draft_logits", { use_draft_logits: true }, same],
  [
    "image_url_input",
    { image_url_input: "http://127.0.0.1/x.png" },
    /'image_url_input' is not supported: the model has no encoders/,
  ],
];

for (const model of MODELS) {
  test(`every input of ${model} does what it says, or is refused by name`, async (t) => {
    const base = (await ask(model, {})).text_output;
    for (const [names, body, check] of model === "ensemble" ? CASES : [...CASES, ...OF_BLS]) {
      await t.test(`${names} of ${JSON.stringify(body)}`, async () => {
        const reply = await ask(model, body);
        if (check instanceof RegExp) return assert.match(String(reply.error), check);
        assert.equal(reply.error, undefined);
        return check(reply, base, model);
      });
    }
  });
}

for (const model of MODELS) {
  test(`a request to ${model} ends early when the engine is asked to stop its id`, async () => {
    const id = `stopped-${model}`;
    const numTokens = 1500;
    const reply = await fetch(`${server.baseUrl}/v2/models/${model}/generate_stream`, {
      method: "POST",
      body: JSON.stringify({ id, text_input: PROMPT, max_tokens: numTokens, min_length: numTokens, stream: true }),
    });
    assert.ok(reply.body !== null);
    let numEvents = 0;
    let stop: Promise<Response> | undefined;
    for await (const text of reply.body.pipeThrough(new TextDecoderStream())) {
      numEvents += text.split("\n\n").length - 1;
      stop ??= fetch(`${server.baseUrl}/v2/models/tensorrt_llm/generate_stream`, {
        method: "POST",
        body: JSON.stringify({ id, input_ids: [1], input_lengths: 0, request_output_len: 0, stop: true }),
      });
    }
    assert.equal((await stop)?.status, 200);
    assert.ok(numEvents >= 1 && numEvents < numTokens, `${numEvents} events`);
  });
}

/** These have no form in JSON, or two dimensions of their own. */
const BINARY: readonly (readonly [string, string, readonly number[], RegExp])[] = [
  ["prompt_embedding_table", "FP16", [1, 2, HIDDEN], /^$/],
  ["prompt_embedding_table", "FP16", [1, 2, HIDDEN + 1], /embedding/],
  ["lora_weights", "FP16", [1, 1, 4], /'lora_weights' needs 'lora_task_id'/],
  ["image_input", "FP16", [1, 1, 3, 2, 2], /'image_input' is not supported/],
  ["image_bytes_input", "UINT8", [1, 1, 2, 2, 3], /'image_bytes_input' is not supported/],
  ["video_bytes_input", "UINT8", [1, 1, 2, 2, 3], /'video_bytes_input' is not supported/],
];

for (const [name, datatype, shape, expected] of BINARY) {
  test(`input ${name} of shape [${shape.join(", ")}] of tensorrt_llm_bls over gRPC gives ${expected.source}`, async () => {
    const count = shape.reduce((product, dim) => product * dim, 1);
    const prompt = Buffer.from("    Once");
    prompt.writeUInt32LE(4);
    const message = encode("inference.ModelInferRequest", {
      model_name: "tensorrt_llm_bls",
      inputs: [
        { name: "text_input", datatype: "BYTES", shape: [1, 1] },
        { name: "max_tokens", datatype: "INT32", shape: [1, 1] },
        { name, datatype, shape },
      ],
      raw_input_contents: [
        prompt,
        Buffer.from(Int32Array.of(2).buffer),
        Buffer.alloc(count * (datatype === "FP16" ? 2 : 1), 1),
      ],
    });
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(message.length, 1);
    const session = openSession(server.grpc);
    const { body } = await rawCall(session, { ":path": STREAM_INFER }, Buffer.concat([prefix, message]));
    session.destroy();
    const reply = decode("inference.ModelStreamInferResponse", body.subarray(5, 5 + body.readUInt32BE(1)));
    assert.match(reply.error_message, expected);
  });
}

test("the cases leave out no input of the pipelines' templates", () => {
  const covered = new Set([...CASES, ...OF_BLS, ...BINARY].flatMap(([names]) => names.split(" ")));
  covered.add("prompt_vocab_size"); // with the captions, and with the engine's own cases
  for (const model of MODELS) {
    const { input } = parseModelConfigText(templateOf(model), "config.pbtxt");
    assert.deepEqual(
      input.map(({ name }) => name).filter((name) => !covered.has(name)),
      [],
      model,
    );
  }
});

test("every output of a pipeline's template is in each reply", async () => {
  for (const model of MODELS) {
    const { output } = parseModelConfigText(templateOf(model), "config.pbtxt");
    const reply = await ask(model, {});
    assert.deepEqual(
      output.map(({ name }) => name).filter((name) => !Object.hasOwn(reply, name)),
      [],
      model,
    );
  }
});
