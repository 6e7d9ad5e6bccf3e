/**
 * 1,024 streams of chats at once: each is whole, right, and its own. One model holds all of them open until the last has
 * begun; the other is the example's language model.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { Agent, request } from "node:http";
import { after, before, test } from "node:test";
import { longTestsReason } from "../support/long-tests.ts";
import { createModelRepository, EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const STREAMS = 1024;
const WORDS = 20;
const PROMPTS = 16;
const skip = longTestsReason ?? false;

/** Tells its prompt word by word, but for the first word not before all have begun. */
const GATED = `
let begun = 0;
let open;
const all = new Promise((resolve) => { open = resolve; });
export async function* execute({ inputs }) {
  const name = /stream-\\d+/.exec(inputs.text_input.strings[0])[0];
  yield { text_output: [name] };
  if (++begun === ${STREAMS}) open();
  await all;
  for (let i = 1; i < ${WORDS}; i++) yield { text_output: [" " + name + "." + i] };
}
`;
const GATED_CONFIG = `
name: "gated"
backend: "typescript"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]
`;

let models: ModelRepository;
let server: ServerProcess;

before(async () => {
  if (skip !== false) return;
  const config = await readFile(`${EXAMPLES}/tensorrt_llm/config.pbtxt`, "utf8");
  const weights = `${EXAMPLES}/../nereid-tiny/language_model`;
  // Otherwise the last digits of a score, and so a word, may depend on what else runs.
  const more = 'parameters { key: "deterministic" value: { string_value: "true" } }\n';
  const own = config.replace(/^name: .*$/m, 'name: "tiny"').replace("../../nereid-tiny/language_model", weights);
  models = await createModelRepository({
    files: { "gated/config.pbtxt": GATED_CONFIG, "gated/1/model.ts": GATED, "tiny/config.pbtxt": `${own}\n${more}` },
  });
  server = await startServerProcess({ repositories: [models.path] });
});

after(async () => {
  await server?.stop();
  await models?.[Symbol.asyncDispose]();
});

interface Streamed {
  readonly text: string;
  readonly finish: string;
  /** Output tokens, by the usage at its end. */
  readonly tokens: number | undefined;
}

interface Chunk {
  readonly id: string;
  readonly choices: readonly { readonly delta: { readonly content?: string }; readonly finish_reason: string | null }[];
  readonly usage?: { readonly completion_tokens: number } | null;
}

const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });

function stream(model: string, content: string, more: object): Promise<Streamed> {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port: server.http, path: "/v1/chat/completions", method: "POST", agent };
    const call = request(options, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => {
        body += piece;
      });
      response.on("error", reject);
      response.on("end", () => resolve(read(response.statusCode, body)));
    });
    call.on("error", reject);
    const messages = [{ role: "user", content }];
    call.end(JSON.stringify({ model, messages, stream: true, stream_options: { include_usage: true }, ...more }));
  });
}

/** @throws AssertionError for a stream that is not whole */
function read(status: number | undefined, body: string): Streamed {
  assert.equal(status, 200, body);
  const events = body.split("\n\n");
  assert.deepEqual(events.splice(-2), ["data: [DONE]", ""]);
  const chunks = events.map((event): Chunk => JSON.parse(event.slice("data: ".length)));
  assert.equal(new Set(chunks.map(({ id }) => id)).size, 1);
  const choices = chunks.flatMap((chunk) => chunk.choices);
  const finishes = choices.flatMap(({ finish_reason: finish }) => finish ?? []);
  const text = choices.map(({ delta }) => delta.content ?? "").join("");
  return { text, finish: finishes.join(), tokens: chunks.at(-1)?.usage?.completion_tokens };
}

test("1,024 streams that are all open at once have their own texts", { skip, timeout: 1_800_000 }, async () => {
  const names = Array.from({ length: STREAMS }, (_, i) => `stream-${i}`);
  const answers = await Promise.all(names.map((name) => stream("gated", name, {})));
  for (const [i, { text, finish }] of answers.entries()) {
    const words = Array.from({ length: WORDS - 1 }, (_, word) => ` ${names[i]}.${word + 1}`);
    assert.deepEqual([text, finish], [names[i] + words.join(""), "stop"]);
  }
});

test("1,024 streams of a language model are those of a single client", { skip, timeout: 1_800_000 }, async () => {
  const prompts = Array.from({ length: PROMPTS }, (_, i) => `What is the first computer number ${i}?`);
  const body = { temperature: 0, max_completion_tokens: 12 };
  const expected: Streamed[] = [];
  for (const prompt of prompts) expected.push(await stream("tiny", prompt, body));
  assert.ok(expected.every(({ text, tokens }) => text !== "" && tokens !== undefined && tokens > 0));
  const answers = await Promise.all(
    Array.from({ length: STREAMS }, (_, i) => stream("tiny", prompts[i % PROMPTS] ?? "", body)),
  );
  for (const [i, answer] of answers.entries()) assert.deepEqual(answer, expected[i % PROMPTS], `stream ${i}`);
});
