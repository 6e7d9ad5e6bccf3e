/** Which formats a template writes, by the marks in its text: it shows the model earlier calls in the form of its own. */

type Rule = readonly [name: string, ...marks: readonly string[]];

/** The first whose marks are all there; special ones come before those that contain them. */
const TOOL_RULES: readonly Rule[] = [
  ["kimi_k2", "<|tool_call_argument_begin|>"],
  ["gpt_oss", "<|channel|>", "functions."],
  ["minimax", "<minimax:tool_call>"],
  ["glm", "<arg_key>"],
  ["qwen3_coder", "<function=", "<parameter="],
  ["deepseek_v3", "<｜tool▁call▁begin｜>", "function<｜tool▁sep｜>"],
  ["deepseek_v3", "<｜tool▁call▁begin｜>", "```json"],
  ["deepseek_v31", "<｜tool▁call▁begin｜>"],
  ["mistral_named", "[TOOL_CALLS]", "[ARGS]"],
  ["mistral", "[TOOL_CALLS]"],
  ["lfm2", "<|tool_call_start|>"],
  ["phi4", "<|/tool_call|>"],
  ["granite", "<|tool_call|>"],
  ["hermes", "<tool_call>"],
  ["functionary", "<function="],
  ["gemma", "```tool_code"],
  ["llama3_pythonic", "<|python_start|>"],
  ["llama3_json", "ipython"],
];

const REASONING_RULES: readonly Rule[] = [
  ["think", "<think>"],
  ["think", "</think>"],
  ["mistral", "[THINK]"],
  ["seed_oss", "<seed:think>"],
  ["kimi", "◁think▷"],
  ["cohere", "<|START_THINKING|>"],
  ["apertus", "<|inner_prefix|>"],
  ["gemma4", "<|channel>thought"],
];

/** "json" for a template that writes no calls. */
export function detectToolFormat(template: string): string {
  return firstMatch(TOOL_RULES, template) ?? "json";
}

export function detectReasoningFormat(template: string): string | undefined {
  return firstMatch(REASONING_RULES, template);
}

function firstMatch(rules: readonly Rule[], template: string): string | undefined {
  return rules.find(([, ...marks]) => marks.every((mark) => template.includes(mark)))?.[0];
}
