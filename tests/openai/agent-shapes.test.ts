/**
 * Bodies in the shapes that open-source agents send, unknown tools and fields among them: each is answered.
 * Sources: openai/codex (codex-api, tools, protocol), vercel/ai (openai-compatible, which OpenCode uses), cline/cline
 * (openai provider), Aider-AI/aider with LiteLLM, continuedev/continue (openaiTypeConverters).
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { APPLY_PATCH, GITHUB, HOSTED, SHELL } from "./codex-tools.ts";
import { createScriptedModels } from "./scripted-models.ts";

type Json = Readonly<Record<string, unknown>>;
let scripted: ModelRepository;
let server: ServerProcess;

before(async () => {
  scripted = await createScriptedModels();
  server = await startServerProcess({ repositories: [scripted.path] });
});

after(async () => {
  await server?.stop();
  await scripted?.[Symbol.asyncDispose]();
});

async function post(path: string, body: Json, headers: Readonly<Record<string, string>> = {}): Promise<string> {
  const response = await fetch(`${server.baseUrl}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return text;
}

/** JSON of the events of a stream. */
function eventsOf<T = Json>(stream: string): T[] {
  const lines = stream.split("\n").filter((line) => line.startsWith("data: {"));
  return lines.map((line) => JSON.parse(line.slice("data: ".length)));
}

const call = (name: string, args: Json): string =>
  `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`;

const text = (type: string, words: string): Json => ({ type, text: words });
const message = (role: string, words: string): Json => ({
  type: "message",
  role,
  content: [text(role === "assistant" ? "output_text" : "input_text", words)],
});

// Codex CLI

const codex = (input: readonly Json[], more: Json = {}): Json => ({
  model: "caller",
  instructions: "You are a coding agent.",
  input,
  tools: [SHELL, APPLY_PATCH, GITHUB, ...HOSTED],
  tool_choice: "auto",
  parallel_tool_calls: true,
  reasoning: { effort: "xhigh", summary: "auto" },
  store: false,
  stream: true,
  include: ["reasoning.encrypted_content"],
  service_tier: "priority",
  prompt_cache_key: "019a-thread",
  text: { verbosity: "low" },
  client_metadata: { "x-codex-installation-id": "i" },
  ...more,
});

const CODEX_HEADERS = { originator: "codex_cli_rs", session_id: "s", "openai-beta": "responses=experimental" };
const OPENING = [
  message("developer", "<permissions instructions>Sandboxed.</permissions instructions>"),
  message("user", "<environment_context><cwd>/repo</cwd></environment_context>"),
];

interface CodexEvent {
  readonly type: string;
  readonly item?: Json;
  readonly response?: Json;
}

/** Codex keeps the items of `output_item.done`, and waits for `response.completed`. */
async function codexTurn(body: Json): Promise<readonly Json[]> {
  const events = eventsOf<CodexEvent>(await post("responses", body, CODEX_HEADERS));
  assert.equal(events[0]?.type, "response.created");
  assert.equal(events.at(-1)?.type, "response.completed");
  return events.flatMap(({ type, item }) => (type === "response.output_item.done" && item !== undefined ? [item] : []));
}

test("Codex: a turn of reasoning, text and a shell call, and its history comes back", async () => {
  const script = `<think>look first</think>I look around. ${call("shell_command", { command: "ls" })}`;
  const input = [...OPENING, message("user", `say:${script}`)];
  const items = await codexTurn(codex(input));
  assert.deepEqual(
    items.map(({ type }) => type),
    ["reasoning", "message", "function_call"],
  );
  const [reasoning, , shell] = items;
  assert.deepEqual(reasoning?.summary, [{ type: "summary_text", text: "look first" }]);
  assert.equal(typeof reasoning.encrypted_content, "string");
  assert.deepEqual([shell?.name, shell?.arguments], ["shell_command", '{"command":"ls"}']);
  const output = [text("input_text", "say: The file is README.md.")];
  const result = { type: "function_call_output", call_id: shell?.call_id, output };
  const [answer] = await codexTurn(codex([...input, ...items, result]));
  assert.match(JSON.stringify(answer?.content), /The file is README.md/);
});

test("Codex: a patch is a custom call with its text, and a tool of a server has its namespace", async () => {
  const patch = "*** Begin Patch\n*** Add File: a.txt\n+a\n*** End Patch";
  const calls = call("apply_patch", { input: patch }) + call("mcp__github__search_issues", { query: "bug" });
  const [custom, search] = await codexTurn(codex([...OPENING, message("user", `say:${calls}`)]));
  assert.deepEqual([custom?.type, custom?.name, custom?.input], ["custom_tool_call", "apply_patch", patch]);
  assert.deepEqual([search?.name, search?.namespace], ["search_issues", "mcp__github"]);
});

test("Codex: every kind of item that it keeps in its history is taken", async () => {
  const history: readonly Json[] = [
    { type: "additional_tools", role: "developer", tools: [{ ...GITHUB, name: "functions" }] },
    ...OPENING,
    message("user", "Do it."),
    { type: "reasoning", summary: [text("summary_text", "s")], content: null, encrypted_content: "gAAAA-of-another" },
    { ...message("assistant", "I begin."), phase: "commentary" },
    { type: "custom_tool_call", status: "completed", call_id: "c1", name: "apply_patch", input: "*** Begin Patch" },
    { type: "custom_tool_call_output", call_id: "c1", output: "Done" },
    { type: "local_shell_call", call_id: "c2", status: "completed", action: { type: "exec", command: ["ls"] } },
    { type: "function_call_output", call_id: "c2", output: "a.txt" },
    { type: "function_call", call_id: "c3", name: "search_issues", namespace: "mcp__github", arguments: "{}" },
    { type: "function_call_output", call_id: "c3", output: [text("input_text", "none")] },
    { type: "tool_search_call", call_id: null, status: "completed", execution: "server", arguments: { query: "q" } },
    { type: "tool_search_output", call_id: null, status: "completed", execution: "server", tools: [] },
    { type: "web_search_call", status: "completed", action: { type: "search", query: "q" } },
    { type: "image_generation_call", id: "ig_1", status: "completed", result: "AAAA" },
    { type: "compaction", encrypted_content: "gAAAA" },
    { type: "agent_message", author: "a", recipient: "b", content: [text("input_text", "Hurry.")] },
    message("user", "say: done"),
  ];
  const [shown] = await codexTurn(codex(history, { model: "messages" }));
  const [part] = (shown?.content ?? []) as { text: string }[];
  const { messages }: { messages: { role: string; content: unknown; tool_calls?: Json[] }[] } = JSON.parse(
    part?.text ?? "",
  );
  assert.deepEqual(
    messages.map(({ role }) => role),
    ["system", "user", "user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "user", "user"],
  );
  assert.match(String(messages[0]?.content), /^You are a coding agent.\n\n<permissions/);
  const calls = messages.flatMap(({ tool_calls: some }) => some ?? []).map((one) => one.function);
  assert.deepEqual(calls, [
    { name: "apply_patch", arguments: { input: "*** Begin Patch" } },
    { name: "local_shell", arguments: { type: "exec", command: ["ls"] } },
    { name: "mcp__github__search_issues", arguments: {} },
  ]);
});

for (const more of [
  { tool_choice: { type: "web_search_preview" } },
  { tool_choice: { type: "mcp", server_label: "deepwiki" } },
  { tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "shell_command" }] } },
  { tool_choice: "none" },
  { tool_choice: "required", tools: HOSTED },
]) {
  test(`Responses: ${JSON.stringify(more).slice(0, 80)} leaves a plain answer`, async () => {
    const [answer] = await codexTurn(codex([message("user", "say: fine")], more));
    assert.match(JSON.stringify(answer?.content), /fine/);
  });
}

test("Codex: a template that wants roles in turn gets them so", async () => {
  const input = [...OPENING, message("user", "one"), message("assistant", "two"), message("developer", "three")];
  const [answer] = await codexTurn(codex(input, { model: "strict", tools: [], tool_choice: "auto" }));
  const [part] = (answer?.content ?? []) as { text: string }[];
  const roles = [...(part?.text ?? "").matchAll(/\[(\w+)\]/g)].map(([, role]) => role);
  assert.deepEqual(roles, ["system", "user", "assistant", "user"]);
});

// Chat completions

interface ChatChunk {
  readonly choices: readonly {
    readonly delta: { readonly content?: string; readonly tool_calls?: readonly { function: { name?: string } }[] };
    readonly finish_reason: string | null;
  }[];
}

interface ChatTurn {
  readonly content: string;
  readonly names: readonly string[];
  readonly finish: string | undefined;
}

async function chatTurn(body: Json): Promise<ChatTurn> {
  const chunks = eventsOf<ChatChunk>(await post("chat/completions", { model: "caller", stream: true, ...body }));
  const choices = chunks.flatMap(({ choices: all }) => all);
  return {
    content: choices.map(({ delta }) => delta.content ?? "").join(""),
    names: choices.flatMap(({ delta }) => (delta.tool_calls ?? []).flatMap(({ function: { name } }) => name ?? [])),
    finish: choices.at(-1)?.finish_reason ?? undefined,
  };
}

const tool = (name: string, more: Json = {}): Json => ({
  type: "function",
  function: {
    name,
    description: name,
    parameters: {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: { path: { type: "string" } },
      required: ["path"],
      additionalProperties: false,
    },
    ...more,
  },
});

test("OpenCode: tools of the AI SDK, cache marks and options of providers", async () => {
  const turn = await chatTurn({
    max_tokens: 32_000,
    temperature: 0.55,
    top_p: 1,
    reasoning_effort: "medium",
    verbosity: "low",
    promptCacheKey: "ses_1",
    stream_options: { include_usage: true },
    tools: [tool("read"), tool("bash"), tool("todowrite")],
    tool_choice: "auto",
    messages: [
      { role: "system", content: "You are opencode.", cache_control: { type: "ephemeral" } },
      { role: "system", content: "<env>linux</env>" },
      { role: "user", content: [{ type: "text", text: "Read it." }] },
      {
        role: "assistant",
        content: "",
        reasoning_content: "I read.",
        tool_calls: [{ id: "call_1", type: "function", function: { name: "read", arguments: '{"path":"a"}' } }],
      },
      { role: "tool", tool_call_id: "call_1", content: `say:${call("bash", { path: "b" })}` },
    ],
  });
  assert.deepEqual([turn.names, turn.finish], [["bash"], "tool_calls"]);
});

test("Cline: a long system prompt, content in parts, tools beside it", async () => {
  const turn = await chatTurn({
    temperature: 0,
    stream_options: { include_usage: true },
    tools: [tool("read_file", { strict: false }), tool("attempt_completion", { strict: false })],
    messages: [
      { role: "system", content: "You are Cline, a highly skilled software engineer." },
      {
        role: "user",
        content: [
          { type: "text", text: "<task>Say it.</task>" },
          { type: "text", text: "<environment_details></environment_details>" },
        ],
      },
      {
        role: "assistant",
        content: "<thinking>yes</thinking>",
        reasoning_details: [{ type: "reasoning.text", text: "t" }],
      },
      { role: "user", content: [{ type: "text", text: "say: done" }] },
    ],
  });
  assert.deepEqual([turn.content, turn.finish], ["done", "stop"]);
});

test("Aider: examples as messages, cache marks of LiteLLM, no tools", async () => {
  const turn = await chatTurn({
    temperature: 0,
    extra_headers: {},
    messages: [
      { role: "system", content: [{ type: "text", text: "Act as an expert.", cache_control: { type: "ephemeral" } }] },
      { role: "user", content: "Change it." },
      { role: "assistant", content: "a.py\n```\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n```" },
      { role: "user", content: "I switched to a new code base." },
      { role: "assistant", content: "Ok.", prefix: false },
      { role: "user", content: "say: a.py" },
    ],
  });
  assert.deepEqual([turn.content, turn.finish], ["a.py", "stop"]);
});

test("Continue: empty contents as a space, tools, a prediction", async () => {
  const turn = await chatTurn({
    max_tokens: 4096,
    frequency_penalty: 0,
    presence_penalty: 0,
    stop: [],
    prediction: { type: "content", content: "old text" },
    parallel_tool_calls: false,
    tools: [tool("builtin_read_file"), tool("builtin_grep_search")],
    messages: [
      { role: "system", content: "You are in agent mode." },
      { role: "user", content: "Find it." },
      {
        role: "assistant",
        content: " ",
        tool_calls: [{ id: "c", type: "function", function: { name: "builtin_grep_search", arguments: "" } }],
      },
      { role: "tool", content: "say: found", tool_call_id: "c" },
    ],
  });
  assert.match(turn.content, /^found/);
  assert.equal(turn.finish, "stop");
});

test("chats: a template that refuses an order gets it in turn; what it still refuses is 400", async () => {
  const words = (role: string, content: string): Json => ({ role, content });
  const messages = [words("system", "a"), words("system", "b"), words("user", "c"), words("user", "d")];
  const turn = await chatTurn({ model: "strict", messages });
  assert.equal(turn.content, "[system] a  b [user] c  d");
  const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
  const result = { role: "tool", tool_call_id: "c", content: "r" };
  const refused = [{ role: "assistant", content: "x", tool_calls: [call, call] }, result, result];
  const body = JSON.stringify({ model: "strict", messages: refused });
  const response = await fetch(`${server.baseUrl}/v1/chat/completions`, { method: "POST", body });
  assert.equal(response.status, 400);
  assert.match(await response.text(), /Roles must alternate/);
});

const CUSTOM: Json = { type: "custom", custom: { name: "patch", format: { type: "text" } } };
const CHOICES: readonly (readonly [tools: readonly Json[], choice: unknown])[] = [
  [[CUSTOM], "auto"],
  [[CUSTOM, tool("read")], { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [CUSTOM] } }],
  [
    [tool("read"), tool("bash")],
    {
      type: "allowed_tools",
      allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "read" } }] },
    },
  ],
  [[{ type: "web_search_preview" }], "required"],
];

for (const [tools, choice] of CHOICES) {
  test(`chats: ${tools.length} tools with tool_choice ${JSON.stringify(choice)} are taken`, async () => {
    const turn = await chatTurn({ messages: [{ role: "user", content: "say: fine" }], tools, tool_choice: choice });
    assert.equal(turn.content, "fine");
  });
}

test("chats: tiers and efforts of newer models are taken", async () => {
  for (const tier of ["auto", "default", "flex", "scale", "priority", "fast", "ultrafast", null]) {
    const turn = await chatTurn({
      messages: [{ role: "user", content: "say: fine" }],
      service_tier: tier,
      reasoning_effort: "xhigh",
      safety_identifier: "s",
      prompt_cache_retention: "24h",
    });
    assert.equal(turn.content, "fine");
  }
});
