/**
 * Folders that were written for other engines, on ours: TensorRT-LLM's `llmapi` repository and Triton's `vllm` models,
 * by the requests of their documentation. One server for all cases.
 */
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  decode,
  encode,
  openSession,
  rawCall,
  STREAM_INFER,
} from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { LLMAPI_CONFIG, llmApiYaml, VLLM_CONFIG, writeAdapter } from "../support/engine-folders.ts";
import { LANGUAGE_MODEL } from "../support/llm-pipeline.ts";
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";
import { parseMetricsPage, sumOf } from "../support/prometheus-text.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const PROMPT = "Once upon a time";
const STORY = `${PROMPT}, there was`;

let repository: ModelRepository;
let server: ServerProcess;
let adapter: string;

before(async () => {
  repository = await createModelRepository({
    files: {
      "tensorrt_llm/config.pbtxt": LLMAPI_CONFIG,
      "tensorrt_llm/1/model.py": "import tensorrt_llm\n",
      "tensorrt_llm/1/model.yaml": llmApiYaml(LANGUAGE_MODEL, true),
      "vllm_model/config.pbtxt": VLLM_CONFIG,
    },
  });
  const folder = join(repository.path, "vllm_model", "1");
  adapter = join(folder, "adapter");
  writeAdapter(adapter);
  mkdirSync(folder, { recursive: true });
  const args = { model: LANGUAGE_MODEL, gpu_memory_utilization: 0.1, enforce_eager: true, max_model_len: 64 };
  writeFileSync(join(folder, "model.json"), JSON.stringify({ ...args, enable_lora: true }));
  writeFileSync(join(folder, "multi_lora.json"), JSON.stringify({ one: adapter }));
  server = await startServerProcess({ repositories: [repository.path] });
});
after(async () => {
  await server.stop();
  await repository[Symbol.asyncDispose]();
});

interface Reply {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

async function post(path: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
  const reply = await fetch(`${server.baseUrl}/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: reply.status, body: (await reply.json()) as Reply["body"] };
}

async function events(model: string, body: object): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const url = `${server.baseUrl}/v2/models/${model}/generate_stream`;
  const text = await (await fetch(url, { method: "POST", body: JSON.stringify(body) })).text();
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, json = ""]) => JSON.parse(json) as Reply["body"]);
}

const generate = (model: string, body: object, headers?: Readonly<Record<string, string>>): Promise<Reply> =>
  post(`v2/models/${model}/generate`, body, headers);

test("the log says once what runs the folders, and which arguments have no effect", () => {
  const log = server.log();
  assert.equal(
    log.match(/model 'tensorrt_llm' is a folder for TensorRT-LLM's LLM API and runs on this server's engine/g)?.length,
    1,
  );
  assert.equal(log.match(/model 'vllm_model' is a folder for vLLM and runs on this server's engine/g)?.length, 1);
  assert.match(log, /model\.yaml: without effect on this engine: backend, cuda_graph_config/);
  assert.match(
    log,
    /model\.yaml: unknown, ignored: kv_cache_config\.enable_block_reus \(did you mean enable_block_reuse\?\)/,
  );
  assert.match(log, /model\.json: without effect on this engine: gpu_memory_utilization, enforce_eager/);
});

test("an llmapi model gives the prompt and its continuation, or the continuation alone", async () => {
  const request = { text_input: PROMPT, sampling_param_max_tokens: 3 };
  const { body } = await generate("tensorrt_llm", request);
  assert.deepEqual(body, { model_name: "tensorrt_llm", model_version: "1", text_output: STORY });
  const more = await generate("tensorrt_llm", { ...request, sampling_param_exclude_input_from_output: true });
  assert.equal(more.body.text_output, STORY.slice(PROMPT.length));
});

test("an llmapi model gives the outputs that are asked for, numbers as texts", async () => {
  const { body } = await generate("tensorrt_llm", {
    text_input: PROMPT,
    sampling_param_max_tokens: 30,
    sampling_param_stop: ["zzz", " was"],
    sampling_param_return_perf_metrics: true,
    return_finish_reason: true,
    return_stop_reason: true,
    return_cumulative_logprob: true,
  });
  assert.equal(body.text_output, `${PROMPT}, there`);
  assert.deepEqual([body.finish_reason, body.stop_reason], ["stop", " was"]);
  assert.ok(Number(body.cumulative_logprob) < 0);
  assert.ok(Number(body.kv_cache_alloc_total_blocks) >= 1);
  assert.ok(Number(body.last_token_time_ns) >= Number(body.first_token_time_ns));
  assert.ok(Number(body.first_token_time_ns) >= Number(body.arrival_time_ns));
  assert.deepEqual([body.acceptance_rate, body.total_draft_tokens], ["0.0", "0"]);
});

test("an llmapi model samples by its own names, and gives the best of several", async () => {
  const request = {
    text_input: PROMPT,
    sampling_param_max_tokens: 8,
    sampling_param_temperature: 1.5,
    sampling_param_top_p: 0.9,
    sampling_param_top_k: 50,
    sampling_param_frequency_penalty: 0.1,
    sampling_param_presence_penalty: 0.1,
    sampling_param_seed: 7,
    return_cumulative_logprob: true,
  };
  const one = (await generate("tensorrt_llm", request)).body;
  assert.deepEqual((await generate("tensorrt_llm", request)).body, one);
  const best = (await generate("tensorrt_llm", { ...request, sampling_param_best_of: 4 })).body;
  assert.ok(Number(best.cumulative_logprob) >= Number(one.cumulative_logprob));
});

test("streams of an llmapi model hold the whole text so far", async () => {
  const request = { text_input: PROMPT, sampling_param_max_tokens: 3, streaming: true, return_finish_reason: true };
  const all = await events("tensorrt_llm", request);
  assert.deepEqual(
    all.map(({ text_output, finish_reason }) => [text_output, finish_reason]),
    [
      [",", "None"],
      [", there", "None"],
      [", there was", "length"],
    ],
  );
});

test("a request with 'stop' ends the one with the same id, by header or by body", async () => {
  for (const withId of [{ headers: { "triton-request-id": "r1" } }, { fields: { id: "r2" } }]) {
    const { headers, fields } = { headers: undefined, fields: {}, ...withId };
    const long = { text_input: PROMPT, sampling_param_max_tokens: 1900, ...fields };
    let isOver = false;
    const first = generate("tensorrt_llm", long, headers).finally(() => (isOver = true));
    for (let tries = 0; tries < 200 && !isOver; tries++) {
      await sleep(20); // until the first request has reached the engine
      const { body } = await generate("tensorrt_llm", { text_input: "", stop: true, ...fields }, headers);
      assert.equal(body.error, "Request cancelled by client");
    }
    const { body } = await first;
    assert.equal(body.error, "Request cancelled by client");
  }
});

for (const [fields, message] of [
  [{ stop: true }, /^A request id must be provided for request cancellation$/],
  [{ sampling_param_best_of: 2 }, /^Error generating request: Greedy decoding in the LLM API does not allow multiple/],
  [{ lora_name: "x", lora_id: 1 }, /lora_id, lora_name, and lora_path must all be provided together$/],
  [{ image_url: "https://localhost/a.png" }, /input 'image_url'/],
  [{ sampling_param_max_tokens: 0 }, /^Error generating request: .*new tokens/],
] as const) {
  test(`an llmapi model refuses ${JSON.stringify(fields)}`, async () => {
    const { status, body } = await generate("tensorrt_llm", { text_input: PROMPT, ...fields });
    assert.equal(status, "image_url" in fields ? 501 : 400);
    assert.match(String(body.error), message);
  });
}

test("a vllm model answers the request of its README: prompt and continuation, parameters of the request", async () => {
  const parameters = { stream: false, temperature: 0, max_tokens: "3" };
  const { body } = await generate("vllm_model", { text_input: PROMPT, parameters });
  assert.deepEqual(body, { model_name: "vllm_model", model_version: "1", text_output: STORY });
  const { body: config } = await (async () => {
    const reply = await fetch(`${server.baseUrl}/v2/models/vllm_model/config`);
    return { body: (await reply.json()) as Reply["body"] };
  })();
  assert.equal((config.input as readonly unknown[]).length, 11);
  assert.deepEqual(config.model_transaction_policy, { decoupled: true });
});

test("a vllm model gives the outputs that are asked for, those of a stream since the response before", async () => {
  const sampling = { temperature: 0, max_tokens: 3, logprobs: 2 };
  const asked = {
    return_finish_reason: true,
    return_cumulative_logprob: true,
    return_logprobs: true,
    return_num_input_tokens: true,
    return_num_output_tokens: true,
  };
  const request = { text_input: PROMPT, sampling_parameters: JSON.stringify(sampling), ...asked };
  const all = await events("vllm_model", { ...request, stream: true });
  assert.deepEqual(
    all.map(({ text_output, num_output_tokens, finish_reason }) => [text_output, num_output_tokens, finish_reason]),
    [
      [",", 1, "None"],
      [" there", 1, "None"],
      [" was", 1, "length"],
    ],
  );
  const { body } = await generate("vllm_model", { ...request, exclude_input_in_output: true });
  assert.deepEqual([body.text_output, body.num_output_tokens, body.num_input_tokens], [", there was", 3, 5]);
  assert.equal(body.cumulative_logprob, all.at(-1)?.cumulative_logprob);
  const logProbs = JSON.parse(String(body.logprobs)) as Record<string, { rank: number; decoded_token: string }>[];
  assert.deepEqual(
    logProbs.map((token) => Object.values(token).find(({ rank }) => rank === 1)?.decoded_token),
    [",", " there", " was"],
  );
});

for (const [fields, message] of [
  [{ lora_name: "two" }, /^LoRA two is not supported, we currently support \['one'\]$/],
  [{ max_tokns: 3 }, /^Error generating stream: Unexpected keyword argument 'max_tokns'$/],
  [{ sampling_parameters: "{" }, /^Error generating stream: input 'sampling_parameters' must be JSON/],
  [{ embedding_request: "{}" }, /^Error generating stream: Model vllm_model does not support 'embed' request$/],
  [
    { text_input: "word ".repeat(80) },
    /^Error generating stream: Prompt length \(\d+\) exceeds maximum input length \(63\)/,
  ],
] as const) {
  test(`a vllm model refuses ${JSON.stringify(fields).slice(0, 60)}`, async () => {
    const { status, body } = await generate("vllm_model", { text_input: PROMPT, ...fields });
    assert.equal(status, 400);
    assert.match(String(body.error), message);
  });
}

/** A message of gRPC over HTTP/2: a flag, a length, the bytes. */
function framed(message: object): Buffer {
  const bytes = encode("inference.ModelInferRequest", message);
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([prefix, bytes]);
}

function* messagesOf(body: Buffer): Generator<Buffer> {
  for (let at = 0; at < body.length; ) {
    const end = at + 5 + body.readUInt32BE(at + 1);
    yield body.subarray(at + 5, end);
    at = end;
  }
}

test("a gRPC stream carries the answers of a vllm model, also those of several sequences, and errors", async () => {
  const text = (name: string, value: string): object => {
    return { name, datatype: "BYTES", shape: [1], contents: { bytes_contents: [Buffer.from(value)] } };
  };
  const flag = (name: string, value: boolean): object => {
    return { name, datatype: "BOOL", shape: [1], contents: { bool_contents: [value] } };
  };
  const sampling = text("sampling_parameters", '{"n": 2, "max_tokens": "4", "seed": 5}');
  const request = (id: string, more: readonly object[]): Buffer =>
    framed({
      model_name: "vllm_model",
      id,
      inputs: [text("text_input", PROMPT), sampling, ...more],
      outputs: [{ name: "text_output" }],
    });
  const wrong = [flag("stream", true), flag("exclude_input_in_output", false)];
  const session = openSession(server.grpc);
  const body = Buffer.concat([request("whole", []), request("wrong", wrong)]);
  const answer = await rawCall(session, { ":path": STREAM_INFER }, body);
  session.destroy();
  const replies = [...messagesOf(answer.body)].map((bytes) => decode("inference.ModelStreamInferResponse", bytes));
  assert.equal(replies.length, 2);
  const errors = replies.map(({ error_message }) => error_message).filter((message) => message !== "");
  assert.match(
    errors.join(),
    /^Error generating stream: When streaming, `exclude_input_in_output` = False is not allowed/,
  );
  const whole = replies.find(({ error_message }) => error_message === "");
  assert.deepEqual(whole.infer_response.outputs[0].shape.map(Number), [2]);
});

for (const model of ["tensorrt_llm", "vllm_model"]) {
  test(`${model} answers OpenAI's routes`, async () => {
    const question = { model, max_tokens: 4, temperature: 0 };
    const { body } = await post("v1/completions", { ...question, prompt: PROMPT });
    const [choice] = body.choices as readonly { text: string; finish_reason: string }[];
    assert.deepEqual([choice?.text, choice?.finish_reason], [", there was a", "length"]);
    assert.equal((body.usage as { completion_tokens: number }).completion_tokens, 4);
    const messages = [{ role: "user", content: "Tell a story" }];
    const chat = await post("v1/chat/completions", { ...question, messages });
    const [said] = chat.body.choices as readonly { message: { content: string } }[];
    const reply = await fetch(`${server.baseUrl}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ ...question, messages, stream: true }),
    });
    const chunks = [...(await reply.text()).matchAll(/^data: (\{.*)$/gm)].map(
      ([, json = ""]) =>
        (JSON.parse(json) as { choices: { delta: { content?: string } }[] }).choices[0]?.delta.content ?? "",
    );
    assert.equal(chunks.join(""), said?.message.content);
    assert.ok(chunks.filter((text) => text !== "").length > 1);
  });
}

test("requests choose an adapter: by its name in multi_lora.json, by its folder, by OpenAI's model name", async () => {
  const named = { text_input: PROMPT, exclude_input_in_output: true, temperature: 0, max_tokens: 4 };
  const { body: adapted } = await generate("vllm_model", { ...named, lora_name: "one" });
  assert.equal(typeof adapted.text_output, "string");
  assert.notEqual(adapted.text_output, ", there was a");
  const byFolder = await generate("tensorrt_llm", {
    text_input: PROMPT,
    sampling_param_max_tokens: 4,
    sampling_param_exclude_input_from_output: true,
    lora_id: 1,
    lora_name: "any",
    lora_path: adapter,
  });
  assert.equal(byFolder.body.text_output, adapted.text_output);
  const question = { model: "vllm_model:one", prompt: PROMPT, max_tokens: 4, temperature: 0 };
  const { body } = await post("v1/completions", question);
  assert.equal((body.choices as readonly { text: string }[])[0]?.text, adapted.text_output);
});

test("a vllm model gives log-probabilities to OpenAI's clients, and takes biases", async () => {
  const question = { model: "vllm_model", max_tokens: 2, temperature: 0, messages: [{ role: "user", content: "Hi" }] };
  const { body } = await post("v1/chat/completions", { ...question, logprobs: true, top_logprobs: 3 });
  const [choice] = body.choices as readonly {
    logprobs: { content: { token: string; logprob: number; top_logprobs: { token: string }[] }[] };
    message: { content: string };
  }[];
  const scores = choice?.logprobs.content ?? [];
  assert.equal(scores.map(({ token }) => token).join(""), choice?.message.content);
  assert.deepEqual(
    scores.map(({ token, top_logprobs: top }) => [top[0]?.token === token, top.length]),
    [
      [true, 3],
      [true, 3],
    ],
  );
  const biased = await post("v1/chat/completions", { ...question, logit_bias: { 675: 100 } });
  assert.match(JSON.stringify(biased.body.choices), / there there/);
});

test("the metrics of Triton's vLLM backend carry the model's name and version", async () => {
  const page = parseMetricsPage(await (await fetch(`http://127.0.0.1:${server.metrics}/metrics`)).text());
  const labels = { model: "vllm_model", version: "1" };
  const count = sumOf(page, "vllm:e2e_request_latency_seconds", labels, "_count");
  assert.ok(count > 0);
  for (const name of ["time_to_first_token_seconds", "request_prompt_tokens", "request_generation_tokens"]) {
    assert.equal(sumOf(page, `vllm:${name}`, labels, "_count"), count);
  }
  for (const name of ["prompt_tokens_total", "generation_tokens_total"])
    assert.ok(sumOf(page, `vllm:${name}`, labels) > 0);
  assert.ok(sumOf(page, "vllm:time_per_output_token_seconds", labels, "_count") > 0);
});

test("a vllm model is guided by a schema of OpenAI's request", async () => {
  const schema = {
    type: "object",
    properties: { a: { type: "boolean" } },
    required: ["a"],
    additionalProperties: false,
  };
  const { body } = await post("v1/chat/completions", {
    model: "vllm_model",
    messages: [{ role: "user", content: "JSON" }],
    temperature: 0,
    response_format: { type: "json_schema", json_schema: { name: "x", schema } },
  });
  const [choice] = body.choices as readonly { message: { content: string } }[];
  assert.equal(typeof (JSON.parse(choice?.message.content ?? "") as { a: unknown }).a, "boolean");
});
