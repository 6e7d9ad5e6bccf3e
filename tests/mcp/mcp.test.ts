/** `/mcp` over a real server, by the protocol's official client in both of its eras, unchanged. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, ProtocolError, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createScriptedModels } from "../openai/scripted-models.ts";
import { createModelRepository, EXAMPLES } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const ERAS = ["legacy", "auto"] as const;
type Era = (typeof ERAS)[number];

const DATATYPES = [
  ["BOOL", "BOOL", [true, false]],
  ["UINT8", "UINT8", [0, 255]],
  ["UINT16", "UINT16", [0, 65_535]],
  ["UINT32", "UINT32", [0, 4_294_967_295]],
  ["UINT64", "UINT64", [7, "18446744073709551615"]],
  ["INT8", "INT8", [-128, 127]],
  ["INT16", "INT16", [-32_768, 32_767]],
  ["INT32", "INT32", [-2_147_483_648, 2_147_483_647]],
  ["INT64", "INT64", [-7, "-9223372036854775808"]],
  ["FP16", "FP16", [0.5, "Infinity"]],
  ["BF16", "BF16", [-1.5, "NaN"]],
  ["FP32", "FP32", [0.25, "-Infinity"]],
  ["FP64", "FP64", [0.1, 1e300]],
  ["STRING", "BYTES", ["größe", ""]],
] as const;

const tensorsOf = (prefix: string): string =>
  DATATYPES.map(([type]) => `{ name: "${prefix}_${type}" data_type: TYPE_${type} dims: [ -1 ] }`).join(", ");
const KINDS = `name: "kinds"\nbackend: "identity"\nmax_batch_size: 0\ninput [ ${tensorsOf("IN")} ]\noutput [ ${tensorsOf("OUT")} ]\n`;

const TICKS = `name: "ticks v1.0"
backend: "typescript"
model_transaction_policy { decoupled: true }
input [ { name: "count" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "tick" data_type: TYPE_INT32 dims: [ -1 ] } ]
parameters { key: "tool_description" value: { string_value: "Counts." } }
`;
const TICKS_CODE = `export async function* execute({ inputs }) {
  for (let i = 0; i < inputs.count.data[0]; i++) yield { tick: { data: Int32Array.of(i), shape: [1] } };
}
`;
const SEQUENCE = `name: "steps"\nbackend: "typescript"\nsequence_batching { }\ninput [ { name: "x" data_type: TYPE_INT32 dims: [ 1 ] } ]\noutput [ { name: "y" data_type: TYPE_INT32 dims: [ 1 ] } ]\n`;

const folder = mkdtempSync(join(tmpdir(), "mcp-"));
const sha256 = (key: string): string => createHash("sha256").update(key).digest("hex");
const KEYS = [
  { name: "open", sha256: sha256("sk-open") },
  { name: "narrow", sha256: sha256("sk-narrow"), models: ["echo"] },
  { name: "blind", sha256: sha256("sk-blind"), apis: ["inference"] },
];
let server: ServerProcess;
const repositories: AsyncDisposable[] = [];

before(async () => {
  const scripted = await createScriptedModels();
  const own = await createModelRepository({
    copies: [`${EXAMPLES}/simple`],
    files: {
      "kinds/config.pbtxt": KINDS,
      "ticks v1.0/config.pbtxt": TICKS,
      "ticks v1.0/1/model.ts": TICKS_CODE,
      "steps/config.pbtxt": SEQUENCE,
      "steps/1/model.ts": "export function execute() { return { y: Int32Array.of(0) }; }\n",
    },
  });
  repositories.push(scripted, own);
  const keyFile = join(folder, "keys.json");
  writeFileSync(keyFile, JSON.stringify({ keys: KEYS }));
  const flags = ["--allow-mcp=true", `--api-key-file=${keyFile}`, "--cors-origins=https://app.example"];
  server = await startServerProcess({ repositories: [scripted.path, own.path], flags });
});
after(async () => {
  await server?.kill();
  await Promise.all(repositories.map((each) => each[Symbol.asyncDispose]()));
  rmSync(folder, { recursive: true });
});

async function connect(era: Era, key = "sk-open"): Promise<Client> {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: era } });
  const requestInit = { headers: { authorization: `Bearer ${key}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${server.baseUrl}/mcp`), { requestInit }));
  return client;
}

for (const era of ERAS) {
  test(`${era}: the list has a tool for each model but sequence models`, async () => {
    const client = await connect(era);
    const { tools } = await client.listTools();
    const titles = tools.map(({ title }) => title).sort();
    const names = [
      "caller",
      "echo",
      "fails",
      "kinds",
      "messages",
      "numbers",
      "simple",
      "slow",
      "strict",
      "ticks v1.0",
      "warm",
    ];
    assert.deepEqual(titles, names);
    for (const { name, inputSchema } of tools) {
      assert.match(name, /^[A-Za-z0-9_-]{1,64}$/);
      assert.equal(inputSchema.type, "object");
    }
    const simple = tools.find(({ name }) => name === "simple");
    const vector = { type: "array", minItems: 16, maxItems: 16 };
    const integers = { ...vector, items: { type: "integer", minimum: -2_147_483_648, maximum: 2_147_483_647 } };
    assert.deepEqual(simple?.inputSchema, {
      type: "object",
      properties: { INPUT0: { type: "array", items: integers }, INPUT1: { type: "array", items: integers } },
      required: ["INPUT0", "INPUT1"],
      additionalProperties: false,
    });
    assert.equal(tools.find(({ title }) => title === "ticks v1.0")?.description, "Counts.");
    await client.close();
  });

  test(`${era}: a model of tensors is called with lists, with and without the batch dimension`, async () => {
    const client = await connect(era);
    await client.listTools(); // the client then checks results by the schema
    const ones = Array.from({ length: 16 }, () => 1);
    const count = Array.from({ length: 16 }, (_, i) => i);
    for (const [one, other] of [
      [count, ones],
      [[count], [ones]],
    ]) {
      const result = await client.callTool({ name: "simple", arguments: { INPUT0: one, INPUT1: other } });
      assert.deepEqual(result.structuredContent, {
        OUTPUT0: [count.map((i) => i + 1)],
        OUTPUT1: [count.map((i) => i - 1)],
      });
      assert.deepEqual(result.content, [{ type: "text", text: JSON.stringify(result.structuredContent) }]);
    }
    await client.close();
  });

  test(`${era}: every datatype goes there and back`, async () => {
    const client = await connect(era);
    await client.listTools();
    const inputs = Object.fromEntries(DATATYPES.map(([type, , values]) => [`IN_${type}`, values]));
    const result = await client.callTool({ name: "kinds", arguments: inputs });
    assert.deepEqual(
      result.structuredContent,
      Object.fromEntries(DATATYPES.map(([type, , values]) => [`OUT_${type}`, values])),
    );
    await client.close();
  });

  test(`${era}: a model of text takes a prompt, and reports its progress with the text`, async () => {
    const client = await connect(era);
    await client.listTools();
    const reports: { progress: number; message?: string | undefined }[] = [];
    const result = await client.callTool(
      { name: "echo", arguments: { prompt: "say: one two three" } },
      { onprogress: ({ progress, message }) => void reports.push({ progress, message }) },
    );
    assert.deepEqual(result.content, [{ type: "text", text: "one two three" }]);
    assert.deepEqual(result.structuredContent, { text: "one two three", finish_reason: "stop" });
    assert.equal(reports.map(({ message }) => message).join(""), "one two three");
    assert.deepEqual(
      reports.map(({ progress }) => progress),
      reports.map(({ progress }) => progress).toSorted((a, b) => a - b),
    );
    assert.ok(reports.length > 1, `${reports.length}`);
    await client.close();
  });

  test(`${era}: a model with any number of answers gives them all, and reports each`, async () => {
    const client = await connect(era);
    const { tools } = await client.listTools();
    const name = tools.find(({ title }) => title === "ticks v1.0")?.name ?? "";
    const reports: (string | undefined)[] = [];
    const result = await client.callTool(
      { name, arguments: { count: 3 } },
      { onprogress: ({ message }) => void reports.push(message) },
    );
    const responses = [0, 1, 2].map((i) => ({ tick: [i] }));
    assert.deepEqual(result.structuredContent, { responses });
    assert.deepEqual(
      reports,
      responses.map((each) => JSON.stringify(each)),
    );
    await client.close();
  });

  test(`${era}: wrong arguments are results that say what was expected`, async () => {
    const client = await connect(era);
    const good = { INPUT0: Array(16).fill(1), INPUT1: Array(16).fill(1) };
    const wrong: readonly (readonly [string, Record<string, unknown>, RegExp])[] = [
      ["simple", { ...good, INPUT0: [1, 2] }, /INPUT0: expected lists of the shape \[any, 16\], got \[2\]/],
      ["simple", { ...good, INPUT0: Array(16).fill(1.5) }, /INPUT0, element 0: expected a whole number .*got 1\.5/],
      ["simple", { ...good, INPUT0: [[1], [1, 2]] }, /INPUT0\[1\]: expected a list of 1/],
      ["simple", { ...good, INPUT0: Array(20_000).fill(1) }, /INPUT0: expected at most 16384 elements/],
      ["simple", { ...good, INPUT9: [1] }, /unknown input 'INPUT9', expected some of INPUT0, INPUT1/],
      ["simple", { INPUT0: good.INPUT0 }, /expected 2 inputs but got 1/],
      ["simple", { ...good, INPUT0: null }, /INPUT0/],
      ["echo", {}, /Missing required parameter: 'prompt'/],
      ["echo", { prompt: 3 }, /expected a string/],
      ["echo", { prompt: "a", temperature: 9 }, /temperature/],
      ["echo", { prompt: "a", model: "slow" }, /unknown argument 'model'/],
      ["fails", { prompt: "a" }, /the script ends here/],
    ];
    for (const [name, given, text] of wrong) {
      const result = await client.callTool({ name, arguments: given });
      assert.equal(result.isError, true, `${name} ${JSON.stringify(given).slice(0, 100)}`);
      const [first] = result.content;
      assert.match(first?.type === "text" ? first.text : "", text);
    }
    await assert.rejects(client.callTool({ name: "steps", arguments: {} }), (error: unknown) => {
      assert.ok(error instanceof ProtocolError);
      assert.equal(error.code, -32_602);
      return true;
    });
    await client.close();
  });

  test(`${era}: a call that the client gives up ends the model's work`, async () => {
    const client = await connect(era);
    const abort = new AbortController();
    const before = server.log().split("slow ended after").length;
    const call = client.callTool(
      { name: "slow", arguments: { prompt: "go" } },
      { signal: abort.signal, onprogress: () => abort.abort() },
    );
    await assert.rejects(call);
    const ended = (): string[] => server.log().split("slow ended after").slice(before);
    for (let i = 0; i < 100 && ended().length === 0; i++) await sleep(50);
    assert.ok(Number.parseInt(ended()[0] ?? "500", 10) < 400, ended()[0]);
    await client.close();
  });

  test(`${era}: a key sees and calls the models of its list alone`, async () => {
    const client = await connect(era, "sk-narrow");
    const { tools } = await client.listTools();
    assert.deepEqual(
      tools.map(({ name }) => name),
      ["echo"],
    );
    await assert.rejects(client.callTool({ name: "slow", arguments: { prompt: "x" } }), /unknown tool 'slow'/);
    await client.close();
  });
}

const MESSAGE = { jsonrpc: "2.0", id: 1, method: "tools/list" };
const HEADERS = {
  authorization: "Bearer sk-open",
  accept: "application/json, text/event-stream",
  "content-type": "application/json",
};

function post(body: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${server.baseUrl}/mcp`, { method: "POST", headers: { ...HEADERS, ...headers }, body });
}

test("a request alone is answered without a session", async () => {
  const response = await post(JSON.stringify(MESSAGE));
  const text = await response.text();
  assert.equal(response.status, 200, text);
  assert.ok(text.includes('"name":"simple"'));
});

test("a page of an origin that nobody allowed is refused, one that is allowed reads the answer", async () => {
  for (const origin of ["https://evil.example", server.baseUrl, "http://localhost:8000", "null"]) {
    const refused = await post(JSON.stringify(MESSAGE), { origin });
    assert.equal(refused.status, 403, origin);
    assert.match(await refused.text(), /"jsonrpc":"2\.0"/);
  }
  const allowed = await post(JSON.stringify(MESSAGE), { origin: "https://app.example" });
  assert.equal(allowed.status, 200);
  assert.equal(allowed.headers.get("access-control-allow-origin"), "https://app.example");
  assert.match(allowed.headers.get("access-control-expose-headers") ?? "", /mcp-session-id/);
  await allowed.text();
});

test("a call without a key, and with one that may not see metadata, is refused", async () => {
  const none = await post(JSON.stringify(MESSAGE), { authorization: "" });
  assert.deepEqual([none.status, none.headers.get("www-authenticate")], [401, "Bearer"]);
  const blind = await post(JSON.stringify(MESSAGE), { authorization: "Bearer sk-blind" });
  assert.equal(blind.status, 403);
});

async function openSession(key: string): Promise<string> {
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 0, method: "initialize", params });
  const response = await post(body, { authorization: `Bearer ${key}` });
  await response.text();
  return response.headers.get("mcp-session-id") ?? "";
}

test("a session is known to its key alone, and ends by DELETE", async () => {
  const id = await openSession("sk-open");
  assert.notEqual(id, "");
  const ask = async (key: string) => {
    const response = await post(JSON.stringify(MESSAGE), { "mcp-session-id": id, authorization: `Bearer ${key}` });
    await response.text();
    return response.status;
  };
  assert.deepEqual([await ask("sk-open"), await ask("sk-narrow")], [200, 404]);
  const end = await fetch(`${server.baseUrl}/mcp`, { method: "DELETE", headers: { ...HEADERS, "mcp-session-id": id } });
  assert.equal(end.status, 200);
  assert.equal(await ask("sk-open"), 404);
});

const DEEP = "[".repeat(200) + "]".repeat(200);
const HOSTILE: readonly (readonly [name: string, body: string, headers?: Record<string, string>])[] = [
  ["nothing", ""],
  ["half of a message", '{"jsonrpc":"2.0",'],
  ["a list", "[]"],
  ["a number", "1"],
  ["null", "null"],
  ["no method", '{"jsonrpc":"2.0","id":1}'],
  ["an unknown method", '{"jsonrpc":"2.0","id":1,"method":"x/y"}'],
  ["no name", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}'],
  ["a name of a prototype", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"__proto__"}}'],
  [
    "arguments that are no object",
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":[1]}}',
  ],
  [
    "an input of a prototype",
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"simple","arguments":{"__proto__":[1]}}}',
  ],
  [
    "deep lists",
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"simple","arguments":{"INPUT0":${DEEP}}}}`,
  ],
  ["a cursor", '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"-1"}}'],
  ["too many bytes", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"${"x".repeat(5_000_000)}"}}`],
  ["another type of content", JSON.stringify(MESSAGE), { "content-type": "text/plain" }],
  ["an unknown session", JSON.stringify(MESSAGE), { "mcp-session-id": "x" }],
  ["an unknown revision", JSON.stringify(MESSAGE), { "mcp-protocol-version": "1999-01-01" }],
];

for (const [name, body, headers] of HOSTILE) {
  test(`hostile: ${name} is refused or answered, and the server goes on`, async () => {
    const response = await post(body, headers);
    const text = await response.text();
    assert.ok(response.status < 500, `${response.status} ${text}`);
    assert.ok(response.status >= 400 || /"error"|"isError":true/.test(text), text.slice(0, 500));
    assert.doesNotMatch(text, /TypeError|RangeError|Internal error/);
    assert.equal((await fetch(`${server.baseUrl}/v2/health/ready`)).status, 200);
  });
}

test("the document of the routes has /mcp", async () => {
  const text = await (await fetch(`${server.baseUrl}/openapi.json`, { headers: HEADERS })).text();
  const { paths }: { paths: Record<string, object> } = JSON.parse(text);
  assert.deepEqual(Object.keys(paths["/mcp"] ?? {}).sort(), ["delete", "get", "post"]);
});

test("the server ends while a session listens", async () => {
  const id = await openSession("sk-open");
  const stream = await fetch(`${server.baseUrl}/mcp`, {
    headers: { ...HEADERS, accept: "text/event-stream", "mcp-session-id": id },
  });
  assert.equal(stream.status, 200);
  const startMs = performance.now();
  const text = stream.text().catch(() => "");
  await server.stop();
  await text;
  assert.ok(performance.now() - startMs < 20_000, "it waited for the stream");
});
