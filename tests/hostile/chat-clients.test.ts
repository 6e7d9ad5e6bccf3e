/** Hostile chats against one server, while others ask: bounded, refused or served, and nobody else is kept waiting. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { KeepAliveClient, type Reply } from "../support/hostile-http.ts";
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";
import { eventually, residentBytes } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const NUM_STREAMS = 1024;
const NUM_WORDS = 8;
const FLOOD_PIECES = 2048;
const PIECE_CHARS = 16 * 1024;
const MAX_GROWTH_BYTES = 24 * 1024 * 1024;
const X = "x".charCodeAt(0);
/** RFC 9112, 7.1: the last chunk. */
const END = "0\r\n\r\n";
const SHORT = { role: "user", content: "Hello" };

/** `template`: the chat template, in one line. */
const config = (name: string, template: string): string => `
name: "${name}"
backend: "typescript"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]
parameters { key: "chat_template" value: { string_value: "${template}" } }
parameters { key: "tool_format" value: { string_value: "hermes" } }
`;
const LAST = "{{ messages[-1].content }}";
/** Gives the prompt and a number back, so that a stream shows whose it is. */
const COUNTS = `
export async function* execute({ inputs }) {
  for (let i = 0; i < ${NUM_WORDS}; i++) yield { text_output: [inputs.text_input.strings[0] + "." + i + " "] };
}
`;
const FLOODS = `
let sent = 0;
export async function* execute({ inputs }) {
  if (inputs.text_input.strings[0] === "count") return yield { text_output: [String(sent)] };
  sent = 0;
  for (; sent < ${FLOOD_PIECES}; sent++) yield { text_output: ["x".repeat(${PIECE_CHARS})] };
}
`;
/** Each would run for hours, or fill the memory. */
const LOOPS: Readonly<Record<string, string>> = {
  loops: "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
  grows: "{% set ns = namespace(t='x') %}{% for a in range(99) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}",
  recurs: "{% macro m(x) %}{{ m(x) }}{{ m(x) }}{% endmacro %}{{ m(1) }}",
};

let models: ModelRepository;
let server: ServerProcess;
let client: KeepAliveClient;

before(async () => {
  const files = {
    "counts/config.pbtxt": config("counts", LAST),
    "counts/1/model.ts": COUNTS,
    "floods/config.pbtxt": config("floods", LAST),
    "floods/1/model.ts": FLOODS,
  };
  const loops = Object.entries(LOOPS).flatMap(([name, template]) => [
    [`${name}/config.pbtxt`, config(name, template)],
    [`${name}/1/model.ts`, COUNTS],
  ]);
  models = await createModelRepository({ files: { ...files, ...Object.fromEntries(loops) } });
  server = await startServerProcess({ repositories: [models.path] });
  client = new KeepAliveClient(server.http, NUM_STREAMS);
});

after(async () => {
  client?.[Symbol.dispose]();
  await server?.stop();
  await models?.[Symbol.asyncDispose]();
});

function ask(model: string, body: object): Promise<Reply> {
  const all = { model, messages: [SHORT], ...body };
  return client.send({ path: "/v1/chat/completions", body: JSON.stringify(all) });
}

async function contentOf(reply: Promise<Reply>): Promise<string> {
  const { status, body } = await reply;
  assert.equal(status, 200, body.toString("utf8"));
  return JSON.parse(body.toString("utf8")).choices[0].message.content;
}

/** Others ask all the time until the work is over. @returns the number of their answers */
async function served<T>(work: Promise<T>): Promise<{ readonly result: T; readonly answers: number }> {
  let isOver = false;
  let answers = 0;
  const others = async (): Promise<void> => {
    do {
      const { status } = await client.send({ method: "GET", path: "/v2/health/ready" });
      assert.equal(status, 200);
      answers += 1;
    } while (!isOver);
  };
  const asked = others();
  try {
    return { result: await work, answers: answers };
  } finally {
    isOver = true;
    await asked;
  }
}

const HOSTILE: readonly (readonly [what: string, model: string, body: () => object, status: number])[] = [
  ...Object.keys(LOOPS).map((name) => [`a template that ${name}`, name, () => ({}), 400] as const),
  [
    "megabytes of messages",
    "counts",
    () => ({ messages: Array(20_000).fill({ role: "user", content: "x".repeat(100) }) }),
    200,
  ],
  ["a message of megabytes", "counts", () => ({ messages: [{ role: "user", content: "x".repeat(9 << 20) }] }), 400],
  ["more messages than a document may have", "counts", () => ({ messages: Array(70_000).fill(SHORT) }), 400],
  ["a thousand tools", "counts", () => ({ tools: toolsOf(1024, {}) }), 200],
  ["thousands of tools", "counts", () => ({ tools: toolsOf(5000, {}) }), 400],
  ["tools with recursive schemas", "counts", () => ({ tools: toolsOf(100, RECURSIVE) }), 200],
  ["a tool that is nested too deep", "counts", () => ({ tools: toolsOf(1, nested(200)) }), 400],
  [
    "half of an image",
    "counts",
    () => ({ messages: [imageMessage("data:image/png;base64,iVBORw0KGgoAAAANSUhEUg")] }),
    400,
  ],
];

const RECURSIVE = { type: "object", properties: { next: { $ref: "#" }, all: { type: "array", items: { $ref: "#" } } } };

function toolsOf(count: number, parameters: object): object[] {
  return Array.from({ length: count }, (_, i) => ({ type: "function", function: { name: `f${i}`, parameters } }));
}

function nested(depth: number): object {
  let schema: object = { type: "string" };
  for (let i = 0; i < depth; i++) schema = { type: "object", properties: { a: schema } };
  return schema;
}

function imageMessage(url: string): object {
  return { role: "user", content: [{ type: "image_url", image_url: { url } }] };
}

for (const [what, model, body, expected] of HOSTILE) {
  test(`${what}: status ${expected}, and others are answered`, async () => {
    const asked = async (): Promise<void> => {
      for (let i = 0; i < 3; i++) {
        const { status, body: text } = await ask(model, body());
        assert.equal(status, expected, text.toString("utf8").slice(0, 500));
      }
    };
    const { answers } = await served(asked());
    assert.ok(answers > 0);
    assert.equal(await contentOf(ask("counts", {})), wordsOf("Hello"));
  });
}

test("a client that stops reading holds its model back, and nobody else", async () => {
  const bytesBefore = await residentBytes(server.pid);
  const body = JSON.stringify({ model: "floods", messages: [SHORT], stream: true });
  const socket = connect(server.http, "127.0.0.1");
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  await new Promise((resolve) => socket.once("readable", resolve)); // and never read
  for (let i = 0; i < 50; i++) assert.equal(await contentOf(ask("counts", {})), wordsOf("Hello"));
  const growth = (await residentBytes(server.pid)) - bytesBefore;
  assert.ok(growth < MAX_GROWTH_BYTES, `${growth} bytes are held for it`);
  let tail = "";
  let received = 0;
  await new Promise<void>((resolve) => {
    socket.on("data", (piece: Buffer) => {
      received += piece.filter((byte) => byte === X).length;
      tail = (tail + piece.subarray(-END.length).toString("latin1")).slice(-END.length);
      if (tail === END) resolve();
    });
  });
  socket.destroy();
  assert.ok(received >= FLOOD_PIECES * PIECE_CHARS, `${received} characters arrived`);
});

test("a client that leaves ends its generation", async () => {
  const body = JSON.stringify({ model: "floods", messages: [SHORT], stream: true });
  const socket = connect(server.http, "127.0.0.1");
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  await new Promise((resolve) => socket.once("readable", resolve));
  socket.destroy();
  const sent = await contentOf(ask("floods", { messages: [{ role: "user", content: "count" }] }));
  assert.ok(Number(sent) < FLOOD_PIECES, `${sent} pieces were made for nobody`);
  await eventually(
    () => contentOf(ask("counts", {})),
    (text) => text === wordsOf("Hello"),
  );
});

test(`${NUM_STREAMS} streams at once all bring their own text`, async () => {
  const stream = async (index: number): Promise<string> => {
    const messages = [{ role: "user", content: `s${index}` }];
    const { status, body } = await ask("counts", { messages, stream: true });
    assert.equal(status, 200, body.toString("utf8"));
    return textOfEvents(body.toString("utf8"));
  };
  const { result, answers } = await served(Promise.all(Array.from({ length: NUM_STREAMS }, (_, i) => stream(i))));
  assert.deepEqual(
    result,
    Array.from({ length: NUM_STREAMS }, (_, i) => wordsOf(`s${i}`)),
  );
  assert.ok(answers > 0);
});

function wordsOf(prompt: string): string {
  return Array.from({ length: NUM_WORDS }, (_, i) => `${prompt}.${i} `).join("");
}

function textOfEvents(text: string): string {
  const events = text.split("\n\n").filter((event) => event !== "");
  assert.equal(events.pop(), "data: [DONE]");
  return events.map((event) => JSON.parse(event.slice("data: ".length)).choices[0]?.delta.content ?? "").join("");
}
