/**
 * Many streams at once, over every way that tokens leave the server: each stream has every token once and in order, also
 * where clients read late or leave, and nothing is held afterwards.
 */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  decode,
  encode,
  frame,
  int32Bytes,
  openSession,
  rawCall,
  STREAM_INFER,
} from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { expectIdle } from "../support/llm-load.ts";
import { createPipeline } from "../support/llm-pipeline.ts";
import { testSize } from "../support/long-tests.ts";
import type { ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const NUM_PROMPTS = 6;
const CLIENTS_OF_A_PROMPT = testSize(3, 12);
const NEW_TOKENS = 30;
/** Long enough that a server without bounds would have sent all of it. */
const LONG = 600;

let repository: ModelRepository;
let server: ServerProcess;

before(async () => {
  const engine = "exclude_input_in_output:True,deterministic:True,max_num_sequences:64";
  repository = await createPipeline({ tensorrt_llm: engine });
  server = await startServerProcess({ repositories: [repository.path] });
});
after(async () => {
  await server.stop();
  await repository[Symbol.asyncDispose]();
});

function promptOf(number: number): number[] {
  return Array.from({ length: 5 + number }, (_, i) => 300 + ((number * 131 + i * 17) % 4000));
}

function tokensBody(number: number, isStreaming: boolean, length = NEW_TOKENS): string {
  const ids = promptOf(number);
  const sizes = { input_lengths: ids.length, request_output_len: length, min_length: length };
  return JSON.stringify({ input_ids: ids, ...sizes, streaming: isStreaming, end_id: -1 });
}

function textBody(number: number, isStreaming: boolean): string {
  const text = `stream number ${number} of some`;
  return JSON.stringify({ text_input: text, max_tokens: NEW_TOKENS, end_id: -1, stream: isStreaming });
}

async function post(path: string, body: string, signal?: AbortSignal): Promise<Response> {
  return fetch(`${server.baseUrl}/v2/models/${path}`, {
    method: "POST",
    body,
    ...(signal === undefined ? {} : { signal }),
  });
}

function eventsOf(text: string): readonly Readonly<Record<string, unknown>>[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, event = ""]) => JSON.parse(event) as Record<string, unknown>);
}

async function tokensOverHttp(number: number): Promise<readonly unknown[]> {
  const text = await (await post("tensorrt_llm/generate_stream", tokensBody(number, true))).text();
  return eventsOf(text).map(({ output_ids }) => output_ids);
}

async function textsOverHttp(number: number): Promise<readonly unknown[]> {
  const text = await (await post("ensemble/generate_stream", textBody(number, true))).text();
  return eventsOf(text).map(({ text_output }) => text_output);
}

async function tokensOverGrpc(number: number): Promise<readonly unknown[]> {
  const ids = promptOf(number);
  const inputs: readonly (readonly [string, readonly number[]])[] = [
    ["input_ids", ids],
    ["input_lengths", [ids.length]],
    ["request_output_len", [NEW_TOKENS]],
    ["end_id", [-1]],
  ];
  const message = encode("inference.ModelInferRequest", {
    model_name: "tensorrt_llm",
    inputs: [
      ...inputs.map(([name, values]) => ({ name, datatype: "INT32", shape: [1, values.length] })),
      { name: "streaming", datatype: "BOOL", shape: [1, 1] },
    ],
    raw_input_contents: [...inputs.map(([, values]) => int32Bytes(values)), Buffer.of(1)],
  });
  const session = openSession(server.grpc);
  const { body } = await rawCall(session, { ":path": STREAM_INFER }, frame(message));
  session.destroy();
  const tokens: number[] = [];
  for (let at = 0; at < body.length; at += 5 + body.readUInt32BE(at + 1)) {
    const bytes = body.subarray(at + 5, at + 5 + body.readUInt32BE(at + 1));
    const { infer_response: response, error_message: error } = decode("inference.ModelStreamInferResponse", bytes);
    assert.equal(error ?? "", "");
    const output = response.outputs.findIndex(({ name }: { name: string }) => name === "output_ids");
    const data = Buffer.from(response.raw_output_contents[output] ?? []);
    for (let k = 0; k < data.length; k += 4) tokens.push(data.readInt32LE(k));
  }
  return tokens;
}

/** The number of each prompt, several times. */
const CLIENTS = Array.from({ length: NUM_PROMPTS * CLIENTS_OF_A_PROMPT }, (_, i) => i % NUM_PROMPTS);

async function wholeTokens(number: number): Promise<readonly number[]> {
  const reply = await post("tensorrt_llm/generate", tokensBody(number, false));
  return ((await reply.json()) as { output_ids: number[] }).output_ids;
}

test("streams of all ways at once have every token once and in order", { timeout: 600_000 }, async () => {
  const tokens = await Promise.all(Array.from({ length: NUM_PROMPTS }, (_, number) => wholeTokens(number)));
  assert.ok(tokens.every(({ length }) => length === NEW_TOKENS));
  const texts = await Promise.all(
    Array.from({ length: NUM_PROMPTS }, async (_, number) => {
      const reply = await post("ensemble/generate", textBody(number, false));
      return ((await reply.json()) as { text_output: string }).text_output;
    }),
  );
  const answers = await Promise.all(
    CLIENTS.map(async (number) => {
      const all = [tokensOverHttp(number), tokensOverGrpc(number), textsOverHttp(number)] as const;
      const [http, grpc, parts] = await Promise.all(all);
      return { number, http, grpc, parts };
    }),
  );
  for (const { number, http, grpc, parts } of answers) {
    assert.deepEqual(http, tokens[number]);
    assert.deepEqual(grpc, tokens[number]);
    assert.equal(parts.length, NEW_TOKENS);
    assert.equal(parts.join("").trim(), texts[number]?.trim());
  }
});

/** Reads nothing for a while, and then everything. */
function readLate(body: string, waitMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: server.http, host: "127.0.0.1" });
    let text = "";
    socket.on("error", reject);
    socket.on("end", () => resolve(text));
    socket.on("connect", () => {
      const path = "/v2/models/tensorrt_llm/generate_stream";
      socket.write(
        `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
      socket.pause();
      setTimeout(() => {
        socket.on("data", (chunk) => {
          text += chunk.toString();
        });
        socket.resume();
      }, waitMs);
    });
  });
}

test("clients that read late get every token, and hold up nobody", { timeout: 600_000 }, async () => {
  const late = Promise.all([0, 1, 2, 3].map((number) => readLate(tokensBody(number, true, LONG), 4000)));
  const expected = await wholeTokens(5);
  for (let i = 0; i < 5; i++) assert.deepEqual(await tokensOverHttp(5), expected);
  for (const text of await late) {
    const ids = eventsOf(text).map(({ output_ids }) => output_ids);
    assert.equal(ids.length, LONG);
    assert.equal(ids.every(Number.isInteger), true);
  }
  await expectIdle(server);
});

test("clients that leave cancel their generations, and others lose nothing", { timeout: 600_000 }, async () => {
  const expected = await Promise.all([0, 1, 2, 3].map(wholeTokens));
  const leaving = Array.from({ length: 12 }, async (_, i) => {
    const controller = new AbortController();
    const reply = await post(
      "tensorrt_llm/generate_stream",
      tokensBody(i % NUM_PROMPTS, true, LONG),
      controller.signal,
    );
    const reader = reply.body?.getReader();
    await reader?.read();
    await sleep(10 * i);
    controller.abort();
    await reader?.read().catch(() => undefined);
  });
  const staying = await Promise.all([0, 1, 2, 3].map(tokensOverHttp));
  assert.deepEqual(staying, expected);
  await Promise.all(leaving);
  await expectIdle(server);
});
