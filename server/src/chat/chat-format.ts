/** Everything about the chat form of one model: its template, its tool calls, its reasoning. Formats that are not named are found in the template. */
import { invalidArgument } from "../core/server-error.ts";
import type {
  ChatFormat,
  ChatFormatSource,
  ChatTemplate,
  CreateChatFormat,
  OutputParser,
  ParserOptions,
  ToolFormat,
} from "./chat-contract.ts";
import { detectReasoningFormat, detectToolFormat } from "./detect-formats.ts";
import { HarmonyParser } from "./harmony.ts";
import { isReasoningOpen, REASONING_ROWS, ReasoningParser, type ReasoningRow, reasoningRow } from "./reasoning.ts";
import { createTemplate } from "./template/chat-template.ts";
import { describeTools } from "./tool-description.ts";
import { AnswerParser } from "./tools/answer-parser.ts";
import { PlainParser } from "./tools/plain-parser.ts";
import { type OpenReasoning, toolGrammar } from "./tools/tool-grammar.ts";
import type { ToolRow } from "./tools/tool-row.ts";
import { TOOL_ROWS, toolRow } from "./tools/tool-rows.ts";

const HARMONY = "gpt_oss";

export const createChatFormat: CreateChatFormat = (source: ChatFormatSource): ChatFormat => {
  const tools = chosenTools(source);
  const reasoning = chosenReasoning(source, tools);
  return {
    template: source.template === undefined ? undefined : templateFor(source.template, source, tools),
    tools: toolFormat(tools, reasoning),
    reasoning: tools.name === HARMONY ? { name: HARMONY, specialTokens: [] } : reasoning,
    openParser: (options) => openParser(options, tools, reasoning),
  };
};

/** @throws ServerError invalid_argument for a name that is not in the table */
function chosenTools({ toolFormat: name, template }: ChatFormatSource): ToolRow {
  const found = toolRow(name ?? detectToolFormat(template ?? ""));
  if (found !== undefined) return found;
  throw invalidArgument(`tool_format: expected ${TOOL_ROWS.map((row) => row.name).join(", ")}, got ${name}`);
}

function chosenReasoning(
  { reasoningFormat: name, template }: ChatFormatSource,
  tools: ToolRow,
): ReasoningRow | undefined {
  if (name === "none" || tools.name === HARMONY) return undefined;
  if (name === undefined) {
    const detected = detectReasoningFormat(template ?? "");
    return detected === undefined ? undefined : reasoningRow(detected);
  }
  const found = reasoningRow(name);
  if (found !== undefined) return found;
  const names = REASONING_ROWS.map((row) => row.name).join(", ");
  throw invalidArgument(`reasoning_format: expected ${names}, none, got ${name}`);
}

function templateFor(text: string, { bosToken, eosToken }: ChatFormatSource, tools: ToolRow): ChatTemplate {
  const template = createTemplate({ text, bosToken, eosToken });
  if (tools.name !== "json") return template;
  return {
    render: ({ tools: offered, messages, ...variables }) =>
      template.render({ ...variables, messages: describeTools(messages, offered ?? []) }),
  };
}

function toolFormat(row: ToolRow, reasoning: ReasoningRow | undefined): ToolFormat {
  return {
    name: row.name,
    specialTokens: row.specialTokens,
    grammarFor: (tools, choice, isParallel, prompt, inputs) =>
      toolGrammar(row, tools, choice, isParallel, { reasoning: openReasoning(reasoning, prompt), inputs }),
  };
}

/** A model that reasons does so before a call that is required, if its prompt says so. */
function openReasoning(row: ReasoningRow | undefined, prompt: string | undefined): OpenReasoning | undefined {
  if (row === undefined || prompt === undefined || !isReasoningOpen(prompt, row)) return undefined;
  return { open: "", close: row.close };
}

function openParser(
  { prompt, tools, choice }: ParserOptions,
  row: ToolRow,
  reasoning: ReasoningRow | undefined,
): OutputParser {
  if (row.name === HARMONY) return new HarmonyParser(tools);
  const hasTools = tools.length > 0 && choice !== "none";
  const inner = hasTools ? new AnswerParser(row, tools) : new PlainParser();
  return reasoning === undefined ? inner : new ReasoningParser(reasoning, isReasoningOpen(prompt, reasoning), inner);
}
