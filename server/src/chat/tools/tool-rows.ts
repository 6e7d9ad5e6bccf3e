/**
 * The formats in which models write tool calls. Sources: the chat templates of the models named (see tests/chat-templates), OpenAI's
 * "harmony response format".
 */
import type { ToolRow } from "./tool-row.ts";

const HERMES: ToolRow = {
  name: "hermes",
  form: {
    kind: "json-object",
    open: "<tool_call>",
    gap: "\n",
    nameKey: "name",
    argumentsKey: "arguments",
    close: "</tool_call>",
  },
  specialTokens: ["<tool_call>", "</tool_call>"],
};

export const TOOL_ROWS: readonly ToolRow[] = [
  HERMES,
  {
    name: "llama3_json",
    form: { kind: "json-object", open: "", gap: "", nameKey: "name", argumentsKey: "parameters", close: "" },
    specialTokens: ["<|python_tag|>"],
  },
  {
    name: "llama3_pythonic",
    form: { kind: "pythonic", open: "", close: "" },
    specialTokens: ["<|python_start|>", "<|python_end|>"],
  },
  {
    name: "lfm2",
    form: { kind: "pythonic", open: "<|tool_call_start|>", close: "<|tool_call_end|>" },
    specialTokens: ["<|tool_call_start|>", "<|tool_call_end|>"],
  },
  {
    name: "functionary",
    form: { kind: "named-json", open: "<function=", namePrefix: "", nameSuffix: "", middle: ">", close: "</function>" },
    specialTokens: [],
  },
  {
    name: "mistral",
    form: { kind: "json-list", open: "[TOOL_CALLS]", nameKey: "name", argumentsKey: "arguments", close: "" },
    specialTokens: ["[TOOL_CALLS]"],
    idLength: 9,
  },
  {
    name: "mistral_named",
    form: { kind: "named-json", open: "[TOOL_CALLS]", namePrefix: "", nameSuffix: "", middle: "[ARGS]", close: "" },
    specialTokens: ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
    idLength: 9,
  },
  {
    name: "qwen3_coder",
    form: {
      kind: "parameters",
      open: "<tool_call>\n<function=",
      nameEnd: ">",
      parameterOpen: "<parameter=",
      parameterMiddle: ">",
      parameterClose: "</parameter>",
      padding: "\n",
      gap: "\n",
      close: "</function>\n</tool_call>",
    },
    specialTokens: ["<tool_call>", "</tool_call>"],
  },
  {
    name: "glm",
    form: {
      kind: "parameters",
      open: "<tool_call>",
      nameEnd: "\n",
      parameterOpen: "<arg_key>",
      parameterMiddle: "</arg_key>\n<arg_value>",
      parameterClose: "</arg_value>",
      padding: "",
      gap: "\n",
      close: "</tool_call>",
    },
    specialTokens: ["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
  },
  {
    name: "minimax",
    form: {
      kind: "parameters",
      open: '<invoke name="',
      nameEnd: '">',
      parameterOpen: '<parameter name="',
      parameterMiddle: '">',
      parameterClose: "</parameter>",
      padding: "",
      gap: "\n",
      close: "</invoke>",
    },
    section: { open: "<minimax:tool_call>\n", close: "</minimax:tool_call>" },
    specialTokens: ["<minimax:tool_call>", "</minimax:tool_call>"],
  },
  {
    name: "gemma",
    form: { kind: "pythonic", open: "```tool_code\n", close: "\n```" },
    specialTokens: [],
  },
  {
    name: "phi4",
    form: {
      kind: "json-list",
      open: "<|tool_call|>",
      nameKey: "name",
      argumentsKey: "arguments",
      close: "<|/tool_call|>",
    },
    specialTokens: ["<|tool_call|>", "<|/tool_call|>"],
  },
  {
    name: "granite",
    form: { kind: "json-list", open: "<|tool_call|>", nameKey: "name", argumentsKey: "arguments", close: "" },
    specialTokens: ["<|tool_call|>"],
  },
  {
    name: "deepseek_v3",
    form: {
      kind: "named-json",
      open: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
      namePrefix: "",
      nameSuffix: "",
      middle: "\n```json\n",
      close: "\n```<｜tool▁call▁end｜>",
    },
    section: { open: "<｜tool▁calls▁begin｜>", close: "<｜tool▁calls▁end｜>" },
    specialTokens: [
      "<｜tool▁calls▁begin｜>",
      "<｜tool▁calls▁end｜>",
      "<｜tool▁call▁begin｜>",
      "<｜tool▁call▁end｜>",
      "<｜tool▁sep｜>",
    ],
  },
  {
    name: "deepseek_v31",
    form: {
      kind: "named-json",
      open: "<｜tool▁call▁begin｜>",
      namePrefix: "",
      nameSuffix: "",
      middle: "<｜tool▁sep｜>",
      close: "<｜tool▁call▁end｜>",
    },
    section: { open: "<｜tool▁calls▁begin｜>", close: "<｜tool▁calls▁end｜>" },
    specialTokens: [
      "<｜tool▁calls▁begin｜>",
      "<｜tool▁calls▁end｜>",
      "<｜tool▁call▁begin｜>",
      "<｜tool▁call▁end｜>",
      "<｜tool▁sep｜>",
    ],
  },
  {
    name: "kimi_k2",
    form: {
      kind: "named-json",
      open: "<|tool_call_begin|>",
      namePrefix: "functions.",
      nameSuffix: ":#",
      middle: "<|tool_call_argument_begin|>",
      close: "<|tool_call_end|>",
    },
    section: { open: "<|tool_calls_section_begin|>", close: "<|tool_calls_section_end|>" },
    specialTokens: [
      "<|tool_calls_section_begin|>",
      "<|tool_calls_section_end|>",
      "<|tool_call_begin|>",
      "<|tool_call_argument_begin|>",
      "<|tool_call_end|>",
    ],
  },
  {
    name: "gpt_oss",
    form: {
      kind: "named-json",
      open: "<|channel|>commentary to=",
      namePrefix: "functions.",
      nameSuffix: " <|constrain|>json",
      middle: "<|message|>",
      close: "<|call|>",
    },
    specialTokens: ["<|channel|>", "<|message|>", "<|constrain|>", "<|call|>", "<|start|>", "<|end|>", "<|return|>"],
  },
  // For models whose template knows no tools: the description of the tools asks for this form.
  { ...HERMES, name: "json", specialTokens: [] },
];

export function toolRow(name: string): ToolRow | undefined {
  return TOOL_ROWS.find((row) => row.name === name);
}
