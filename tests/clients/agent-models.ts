/**
 * A chat model that acts as an agent by rule, and one that gives vectors. The rules, first match first: a tool that must be
 * called is called with an example of its schema; results of tools are told; an answer with a schema is an example of it;
 * images are counted; "weather in A and B" calls the first tool for each town; "think" thinks; all else is repeated.
 */
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";

const text = (name: string): string => `{ name: "${name}" data_type: TYPE_STRING dims: [ 1 ] optional: true }`;

const AGENT_CONFIG = `
name: "agent"
backend: "typescript"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [
  { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] },
  { name: "messages" data_type: TYPE_STRING dims: [ 1 ] },
  ${["tools", "tool_choice", "response_format", "guided_decoding_guide_type", "guided_decoding_guide"].map(text).join(",\n  ")},
  { name: "image" data_type: TYPE_STRING dims: [ -1 ] optional: true }
]
output [
  { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] },
  { name: "num_input_tokens" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "num_output_tokens" data_type: TYPE_INT32 dims: [ 1 ] }
]
parameters { key: "tool_format" value { string_value: "hermes" } }
parameters { key: "reasoning_format" value { string_value: "think" } }
`;

const AGENT = `
const json = (input) => (input === undefined ? undefined : JSON.parse(input.strings[0]));

/** The smallest value that a schema allows. */
function example(schema, root = schema) {
  if (schema.$ref) return example(schema.$ref.slice(2).split("/").reduce((at, key) => at[key], root), root);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const [first] = schema.anyOf ?? schema.oneOf ?? schema.allOf ?? [];
  if (first) return example(first, root);
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case "string": return "text";
    case "integer":
    case "number": return schema.minimum ?? 1;
    case "boolean": return true;
    case "null": return null;
    case "array": return [example(schema.items ?? {}, root)];
    default: return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([key, each]) => [key, example(each, root)]));
  }
}

const callOf = (name, args) => "<tool_call>\\n" + JSON.stringify({ name, arguments: args }) + "\\n</tool_call>";
const textOf = (content) => (typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join(""));

function answerOf({ messages, tools, choice, format, numImages }) {
  const last = messages.at(-1);
  if (choice === "required" || choice?.function) {
    const tool = tools.find((each) => each.function.name === choice.function?.name) ?? tools[0];
    return callOf(tool.function.name, example(tool.function.parameters ?? {}));
  }
  const results = messages.slice(messages.findLastIndex(({ role }) => role !== "tool") + 1);
  if (results.length > 0) return "The result is " + results.map(({ content }) => textOf(content)).join(" and ") + ".";
  if (format?.type === "json_schema") return JSON.stringify(example(format.json_schema.schema));
  if (format?.type === "json_object") return '{"ok": true}';
  const said = textOf(last.content);
  if (numImages > 0) return "I see " + numImages + ".";
  const towns = /weather in ([A-Z]\\w+)(?: and ([A-Z]\\w+))?/.exec(said);
  if (towns && tools.length > 0) {
    const [{ function: tool }] = tools;
    const [key] = Object.keys(tool.parameters.properties);
    const calls = towns.slice(1).filter(Boolean).map((town) => callOf(tool.name, { ...example(tool.parameters), [key]: town }));
    return calls.join("\\n");
  }
  if (said.startsWith("think")) return "<think>a thought</think>an answer";
  return "You said: " + said;
}

export async function* execute({ inputs }) {
  const answer = answerOf({
    messages: json(inputs.messages),
    tools: json(inputs.tools) ?? [],
    choice: json(inputs.tool_choice) ?? "auto",
    format: json(inputs.response_format),
    numImages: inputs.image?.strings.length ?? 0,
  });
  for (let at = 0; at < answer.length; at += 5) {
    yield { text_output: [answer.slice(at, at + 5)], num_input_tokens: [7], num_output_tokens: [1] };
  }
}
`;

const VECTORS_CONFIG = `
name: "vectors"
backend: "typescript"
max_batch_size: 8
input [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "embedding" data_type: TYPE_FP32 dims: [ 3 ] } ]
`;

/** The length of the text, 4, and 0. */
const VECTORS = `
export function execute({ inputs }) {
  const texts = inputs.text.strings;
  return { embedding: { shape: [texts.length, 3], data: Float32Array.from(texts.flatMap((text) => [text.length, 4, 0])) } };
}
`;

/** The caller disposes of it. */
export function createAgentModels(): Promise<ModelRepository> {
  return createModelRepository({
    files: {
      "agent/config.pbtxt": AGENT_CONFIG,
      "agent/1/model.ts": AGENT,
      "vectors/config.pbtxt": VECTORS_CONFIG,
      "vectors/1/model.ts": VECTORS,
    },
  });
}
