/** A valid body of every route of OpenAI's, Anthropic's and Ollama's API, as parts that fuzzers break. */

const TOOL = { type: "function", function: { name: "f", description: "d", parameters: schema(), strict: true } };

function schema(): object {
  return {
    type: "object",
    properties: {
      a: { type: "integer", minimum: 1 },
      b: { $ref: "#/$defs/b" },
      c: { anyOf: [{ type: "string" }, { type: "null" }] },
    },
    required: ["a"],
    additionalProperties: false,
    $defs: { b: { type: "array", items: { enum: ["x", 1] } } },
  };
}

const SAMPLING = {
  temperature: 0.5,
  top_p: 0.9,
  top_k: 4,
  presence_penalty: 0.1,
  frequency_penalty: 0.1,
  seed: 1,
  stop: ["a", "b"],
  logit_bias: { "1": 2 },
  user: "u",
  service_tier: "auto",
};

const MESSAGES = [
  { role: "system", content: "s" },
  {
    role: "user",
    content: [
      { type: "text", text: "t" },
      { type: "image_url", image_url: { url: "data:;base64,AAAA" } },
    ],
  },
  {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: '{"a":1}' } }],
  },
  { role: "tool", tool_call_id: "c", content: "r" },
  { role: "user", content: "again" },
];

const TEXTS = MESSAGES.filter((_, i) => i !== 1);

const CHAT = {
  messages: TEXTS,
  max_completion_tokens: 4,
  stream: true,
  stream_options: { include_usage: true },
  n: 2,
  logprobs: false,
  tools: [TOOL],
  tool_choice: "auto",
  parallel_tool_calls: true,
  chat_template_kwargs: { enable_thinking: true },
  ...SAMPLING,
};

const RESPONSE = {
  input: [
    { role: "user", content: [{ type: "input_text", text: "t" }] },
    { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c", output: "r" },
    { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "x" }] },
  ],
  instructions: "i",
  tools: [{ type: "function", name: "f", parameters: schema(), strict: true }, { type: "web_search" }],
  tool_choice: "auto",
  reasoning: { effort: "low", summary: "auto" },
  text: { format: { type: "json_schema", name: "n", schema: schema() } },
  metadata: { a: "b" },
  include: ["reasoning.encrypted_content"],
  stream: true,
  store: false,
  max_output_tokens: 4,
};

const ANTHROPIC = {
  system: [{ type: "text", text: "s", cache_control: { type: "ephemeral" } }],
  messages: [
    { role: "user", content: [{ type: "text", text: "t" }] },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "x", signature: "s" },
        { type: "tool_use", id: "c", name: "f", input: { a: 1 } },
      ],
    },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: [{ type: "text", text: "r" }] }] },
  ],
  tools: [{ name: "f", description: "d", input_schema: schema() }],
  tool_choice: { type: "auto", disable_parallel_tool_use: true },
  thinking: { type: "enabled", budget_tokens: 1024 },
};

const OLLAMA = {
  stream: true,
  format: schema(),
  options: { temperature: 0.5, num_predict: 4, stop: ["a"], seed: 1, top_k: 2, num_ctx: 100 },
  think: true,
  keep_alive: "5m",
};

const GENERATED = ["tokens", "text"];

export interface BodyCase {
  readonly path: string;
  /** Models that the route is for. */
  readonly models: readonly string[];
  readonly body: Readonly<Record<string, unknown>>;
  /** Refused as it is: a model of the list does not support it. */
  readonly isRefused?: true;
}

const pairs = { query: "q", documents: ["a", { text: "b" }], top_n: 1, return_documents: true };
const scores = { text_1: "a", text_2: ["b", "c"] };

export const BODY_CASES: readonly BodyCase[] = [
  { path: "/v1/chat/completions", models: ["tokens"], body: CHAT },
  { path: "/v1/chat/completions", models: GENERATED, body: { ...CHAT, logit_bias: null } },
  { path: "/v1/chat/completions", models: ["tokens"], body: { ...CHAT, stream: false, stream_options: null } },
  { path: "/v1/chat/completions", models: GENERATED, body: { messages: MESSAGES, n: 2 }, isRefused: true },
  { path: "/v1/chat/completions", models: GENERATED, body: { messages: TEXTS, response_format: format() } },
  { path: "/v1/chat/completions", models: ["tokens"], body: { messages: TEXTS, logprobs: true, top_logprobs: 2 } },
  {
    path: "/v1/completions",
    models: ["tokens"],
    body: { prompt: ["a", "b"], logprobs: 2, best_of: 1, n: 1, max_tokens: 3, stream: true, ...SAMPLING },
  },
  { path: "/v1/completions", models: GENERATED, body: { prompt: "a", suffix: "s", ...SAMPLING }, isRefused: true },
  { path: "/v1/completions", models: ["tokens"], body: { prompt: [1, 2, 3], guided_json: schema() } },
  { path: "/v1/completions", models: GENERATED, body: { prompt: "a", guided_regex: "a+", stream: true } },
  { path: "/v1/completions", models: GENERATED, body: { prompt: ["a"], echo: true, n: 2 } },
  { path: "/v1/responses", models: GENERATED, body: RESPONSE },
  { path: "/v1/responses", models: GENERATED, body: { ...RESPONSE, stream: false } },
  { path: "/v1/responses/input_tokens", models: GENERATED, body: RESPONSE },
  { path: "/v1/responses/compact", models: GENERATED, body: RESPONSE },
  {
    path: "/v1/embeddings",
    models: ["vectors"],
    body: { input: ["a", "b"], encoding_format: "base64", dimensions: 2 },
  },
  { path: "/v1/embeddings", models: ["vectors"], body: { input: [[1, 2], [3]], encoding_format: "float" } },
  ...["/score", "/v1/score"].map((path) => ({ path, models: ["vectors", "pairs"], body: scores })),
  ...["/rerank", "/v1/rerank", "/v2/rerank"].map((path) => ({ path, models: ["vectors", "pairs"], body: pairs })),
  ...["/classify", "/v1/classify"].map((path) => ({ path, models: ["classes"], body: { input: ["a", "b"] } })),
  { path: "/tokenize", models: GENERATED, body: { messages: TEXTS, tools: [TOOL], return_token_strs: true } },
  { path: "/tokenize", models: GENERATED, body: { prompt: "some text", add_special_tokens: true } },
  { path: "/detokenize", models: GENERATED, body: { tokens: [1, 2, 300] } },
  {
    path: "/v1/messages",
    models: GENERATED,
    body: { ...ANTHROPIC, max_tokens: 2048, stream: true, stop_sequences: ["a"], top_k: 2 },
  },
  { path: "/v1/messages", models: GENERATED, body: { ...ANTHROPIC, max_tokens: 2048 } },
  { path: "/v1/messages/count_tokens", models: GENERATED, body: ANTHROPIC },
  { path: "/api/chat", models: GENERATED, body: { messages: MESSAGES.map(ollamaMessage), tools: [TOOL], ...OLLAMA } },
  { path: "/api/generate", models: GENERATED, body: { prompt: "p", system: "y", raw: false, images: [], ...OLLAMA } },
  { path: "/api/generate", models: ["tokens"], body: { prompt: "p", context: [1, 65, 66], truncate: true } },
  { path: "/api/pull", models: GENERATED, body: { stream: true } },
  {
    path: "/api/embed",
    models: ["vectors"],
    body: { input: ["a", "b"], dimensions: 2, truncate: true, keep_alive: 0 },
  },
  { path: "/api/embeddings", models: ["vectors"], body: { prompt: "a" } },
  { path: "/api/show", models: GENERATED, body: { name: "tokens", verbose: true } },
];

function format(): object {
  return { type: "json_schema", json_schema: { name: "n", schema: schema(), strict: true } };
}

function ollamaMessage({ role }: { readonly role: string }): object {
  const call = { function: { name: "f", arguments: { a: 1 } } };
  return { role, content: "t", images: [], thinking: "x", ...(role === "assistant" ? { tool_calls: [call] } : {}) };
}
