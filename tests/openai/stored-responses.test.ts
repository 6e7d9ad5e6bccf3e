/** Responses that are kept, by OpenAI's own client: conversations, background, cancellation, keys, hostile ids. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI, { APIError } from "openai";
import type { Response, ResponseStreamEvent } from "openai/resources/responses/responses";
import type { ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createScriptedModels } from "./scripted-models.ts";

const sha256 = (key: string): string => createHash("sha256").update(key).digest("hex");
const folder = mkdtempSync(join(tmpdir(), "stored-responses-"));
const keyFile = join(folder, "keys.json");
let scripted: ModelRepository;
let server: ServerProcess;
let client: OpenAI;
let other: OpenAI;

before(async () => {
  const keys = ["one", "two"].map((name) => ({ name, sha256: sha256(`sk-${name}`) }));
  writeFileSync(keyFile, JSON.stringify({ keys }));
  scripted = await createScriptedModels();
  server = await startServerProcess({ repositories: [scripted.path], flags: [`--api-key-file=${keyFile}`] });
  const baseURL = `${server.baseUrl}/v1`;
  client = new OpenAI({ apiKey: "sk-one", baseURL, maxRetries: 0 });
  other = new OpenAI({ apiKey: "sk-two", baseURL, maxRetries: 0 });
});

after(async () => {
  await server?.stop();
  await scripted?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

async function collect<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of stream) all.push(each);
  return all;
}

async function errorOf(promise: Promise<unknown>): Promise<APIError> {
  const error = await promise.then(
    () => assert.fail("no error"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof APIError, String(error));
  return error;
}

async function finished(id: string): Promise<Response> {
  for (;;) {
    const response = await client.responses.retrieve(id);
    if (response.status !== "queued" && response.status !== "in_progress") return response;
    await sleep(20);
  }
}

interface SeenMessage {
  readonly role: string;
  readonly content: string;
}

/** The messages that reached the model, which gives them back. */
function seen({ output_text: text }: Response): readonly SeenMessage[] {
  const { messages }: { messages: SeenMessage[] } = JSON.parse(text);
  return messages;
}

const numbersOf = (events: readonly ResponseStreamEvent[]): number[] =>
  events.map((event) => ("sequence_number" in event ? event.sequence_number : -1));

test("previous_response_id brings the conversation, but not its instructions", async () => {
  const first = await client.responses.create({ model: "echo", input: "say: blue", instructions: "Old rule." });
  const second = await client.responses.create({
    model: "messages",
    input: [{ role: "user", content: "And now?" }],
    instructions: "New rule.",
    previous_response_id: first.id,
  });
  assert.equal(second.previous_response_id, first.id);
  assert.deepEqual(
    seen(second).map(({ role, content }) => [role, content]),
    [
      ["system", "New rule."],
      ["user", "say: blue"],
      ["assistant", "blue"],
      ["user", "And now?"],
    ],
  );
  const third = await client.responses.create({ model: "messages", input: "Go on", previous_response_id: second.id });
  assert.equal(seen(third).length, 5);
});

test("item_reference names an item of an earlier response", async () => {
  const first = await client.responses.create({ model: "echo", input: "say: green" });
  const reference = { type: "item_reference" as const, id: first.output[0]?.id ?? "" };
  const input = [reference, { role: "user" as const, content: "Which colour?" }];
  const second = await client.responses.create({ model: "messages", input });
  assert.deepEqual(
    seen(second).map(({ content }) => content),
    ["green", "Which colour?"],
  );
  const error = await errorOf(other.responses.create({ model: "messages", input }));
  assert.deepEqual([error.status, error.param], [404, "input[0]"]);
});

test("a response can be read, its input listed in pages, and deleted", async () => {
  const made = await client.responses.create({
    model: "echo",
    input: [
      { role: "developer", content: "Be brief." },
      { role: "user", content: [{ type: "input_text", text: "say: red" }] },
    ],
    metadata: { order: "7" },
  });
  const { output_text: _, ...read } = await client.responses.retrieve(made.id);
  const { output_text: __, ...whole } = made;
  assert.deepEqual(JSON.parse(JSON.stringify(read)), JSON.parse(JSON.stringify(whole)));
  const items = await collect(client.responses.inputItems.list(made.id, { limit: 1 }));
  assert.deepEqual(
    items.map((item) => item.type === "message" && [item.role, item.content]),
    [
      ["user", [{ type: "input_text", text: "say: red" }]],
      ["developer", [{ type: "input_text", text: "Be brief." }]],
    ],
  );
  const forward = await client.responses.inputItems.list(made.id, { order: "asc" });
  assert.deepEqual(
    forward.data.map(({ id }) => id).reverse(),
    items.map(({ id }) => id),
  );
  await client.responses.delete(made.id);
  assert.equal((await errorOf(client.responses.retrieve(made.id))).status, 404);
  const error = await errorOf(client.responses.create({ model: "echo", input: "x", previous_response_id: made.id }));
  assert.deepEqual(
    [error.status, error.code, error.param],
    [400, "previous_response_not_found", "previous_response_id"],
  );
});

test("a streamed response is kept, and one with store: false is not", async () => {
  const kept = await client.responses.stream({ model: "echo", input: "say: kept" }).finalResponse();
  assert.equal((await client.responses.retrieve(kept.id)).output_text, "kept");
  const lost = await client.responses.create({ model: "echo", input: "say: lost", store: false });
  assert.equal((await errorOf(client.responses.retrieve(lost.id))).status, 404);
});

test("another key sees nothing of a response", async () => {
  const { id } = await client.responses.create({ model: "slow", input: "x", background: true });
  const calls = [
    () => other.responses.retrieve(id),
    () => other.responses.delete(id),
    () => other.responses.cancel(id),
    () => other.responses.inputItems.list(id),
  ];
  for (const call of calls) assert.equal((await errorOf(call())).status, 404);
  const error = await errorOf(other.responses.create({ model: "echo", input: "x", previous_response_id: id }));
  assert.equal(error.code, "previous_response_not_found");
  assert.equal((await client.responses.cancel(id)).status, "cancelled");
});

test("a background response runs on, and is polled to its end", async () => {
  const queued = await client.responses.create({ model: "echo", input: "say: one two", background: true });
  assert.deepEqual([queued.status, queued.background, queued.output], ["queued", true, []]);
  const response = await finished(queued.id);
  assert.deepEqual([response.status, response.output_text], ["completed", "one two"]);
  const failing = await client.responses.create({ model: "fails", input: "x", background: true });
  const failed = await finished(failing.id);
  assert.equal(failed.status, "failed");
  assert.match(failed.error?.message ?? "", /the script ends here/);
});

test("a background stream goes on without its client, and is read again from any event on", async () => {
  const first: ResponseStreamEvent[] = [];
  const stream = await client.responses.create({
    model: "echo",
    input: `say: ${"word ".repeat(50)}end`,
    background: true,
    stream: true,
  });
  for await (const event of stream) {
    first.push(event);
    if (event.type === "response.output_text.delta") break;
  }
  const [created] = first;
  assert.equal(created?.type, "response.created");
  const { id } = created.response;
  const all = await collect(await client.responses.retrieve(id, { stream: true }));
  assert.deepEqual(
    all.slice(0, 3).map(({ type }) => type),
    ["response.created", "response.queued", "response.in_progress"],
  );
  assert.equal(all.at(-1)?.type, "response.completed");
  assert.deepEqual(
    numbersOf(all),
    all.map((_, i) => i),
  );
  const rest = await collect(await client.responses.retrieve(id, { stream: true, starting_after: 10 }));
  assert.deepEqual(numbersOf(rest), numbersOf(all).slice(11));
  assert.equal((await client.responses.stream({ response_id: id }).finalResponse()).status, "completed");
});

test("cancel() ends a background response, twice as once, and its readers", async () => {
  const { id } = await client.responses.create({ model: "slow", input: "x", background: true });
  const reader = await client.responses.retrieve(id, { stream: true });
  const events = collect(reader);
  assert.equal((await client.responses.cancel(id)).status, "cancelled");
  assert.equal((await client.responses.cancel(id)).status, "cancelled");
  assert.ok((await events).every(({ type }) => type !== "response.completed"));
  assert.equal((await client.responses.retrieve(id)).status, "cancelled");
  const done = await client.responses.create({ model: "echo", input: "say: x" });
  const error = await errorOf(client.responses.cancel(done.id));
  assert.deepEqual([error.status, error.type], [400, "invalid_request_error"]);
});

test("a foreground response ends when its client leaves, and frees its place", async () => {
  const leave = new AbortController();
  const answer = client.responses.create({ model: "slow", input: "x" }, { signal: leave.signal });
  await sleep(100);
  leave.abort();
  await assert.rejects(answer);
  const stream = await client.responses.create({ model: "slow", input: "x", stream: true });
  for await (const { type } of stream) if (type === "response.output_text.delta") break;
  let open = "";
  while (open !== "0") {
    const page = await (await fetch(`http://127.0.0.1:${server.metrics}/metrics`)).text();
    open = /nereid_key_open_requests\{key="one"\} (\d+)/.exec(page)?.[1] ?? "";
    await sleep(20);
  }
  assert.match(server.log(), /slow ended after \d+ words/);
});

const HOSTILE = ["resp_none", "..", "%2e%2e", "__proto__", "constructor", "%00", "%", "x".repeat(4000), "a%2Fb", "é"];

test("ids that nobody gave out are 404 on every route", async () => {
  for (const id of HOSTILE) {
    for (const [method, rest] of [
      ["GET", ""],
      ["DELETE", ""],
      ["POST", "/cancel"],
      ["GET", "/input_items"],
    ] as const) {
      const url = `${server.baseUrl}/v1/responses/${id}${rest}`;
      const response = await fetch(url, { method, headers: { authorization: "Bearer sk-one" } });
      const body: { error: { type: string } } = (await response.json()) as never;
      assert.ok([404, 405].includes(response.status), `${method} ${id}: ${response.status}`);
      assert.equal(body.error.type, "invalid_request_error");
    }
  }
});

test("wrong queries are refused by name", async () => {
  const { id } = await client.responses.create({ model: "echo", input: "say: x" });
  const refusals = [
    [() => client.responses.inputItems.list(id, { limit: 0 }), "limit"],
    [() => client.responses.inputItems.list(id, { order: "up" as never }), "order"],
    [() => client.responses.inputItems.list(id, { after: "none" }), "after"],
    [() => client.responses.retrieve(id, { stream: true }), "stream"],
    [() => client.responses.create({ model: "echo", input: "x", background: true, store: false }), "store"],
  ] as const;
  for (const [call, param] of refusals) {
    const error = await errorOf(call());
    assert.deepEqual([error.status, error.param], [400, param]);
  }
});
