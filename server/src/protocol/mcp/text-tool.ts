/**
 * A model of text as a tool: a prompt becomes a text. It is rendered by the model's chat template, as a chat of one message.
 * Sources: Model Context Protocol, "Tools", "Progress"; OpenAI's API reference, "Create chat completion".
 */

import { MAX_STOPS } from "../../core/limits.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { TextModel } from "../../text-model/text-model.ts";
import { array, integer, number, object, optional, required, type Schema, string } from "../api/schema.ts";
import { ChatChoice, WholeChoice } from "../openai/chat/chat-choice.ts";
import { prepareChat } from "../openai/chat/prompt.ts";
import { CHAT_REQUEST } from "../openai/chat/request.ts";
import { openGenerations } from "../openai/open-generations.ts";
import { UsageSum } from "../openai/usage.ts";
import type { McpTool, McpToolResult } from "./mcp-endpoint.ts";
import { type ToolRun, toolResult } from "./tool-call.ts";

interface TextArguments {
  readonly prompt: string;
  readonly system?: string | undefined;
  readonly max_tokens?: number | undefined;
  readonly temperature?: number | undefined;
  readonly top_p?: number | undefined;
  readonly seed?: number | undefined;
  readonly stop?: readonly string[] | undefined;
}

const ARGUMENTS: Schema<TextArguments> = object<TextArguments>({
  prompt: required(string()),
  system: optional(string()),
  max_tokens: optional(integer(1)),
  temperature: optional(number(0, 2)),
  top_p: optional(number(0, 1)),
  seed: optional(integer(0)),
  stop: optional(array(string(), 0, MAX_STOPS)),
});

const COUNT = { type: "integer", minimum: 0 };

export function textToolSchemas(name: string): Pick<McpTool, "description" | "inputSchema" | "outputSchema"> {
  return {
    description: `Generates text with the language model '${name}'.`,
    inputSchema: { ...ARGUMENTS.json, additionalProperties: false },
    outputSchema: {
      type: "object",
      properties: {
        text: { type: "string" },
        reasoning: { type: "string" },
        finish_reason: { type: "string", enum: ["stop", "length"] },
        prompt_tokens: COUNT,
        completion_tokens: COUNT,
      },
      required: ["text", "finish_reason"],
    },
  };
}

/** @throws ApiError @throws ServerError @throws AccessRefusal */
export async function runTextTool(model: TextModel, { call, facts }: ToolRun): Promise<McpToolResult> {
  const { prompt, system, ...sampling } = readArguments(call.arguments);
  const systemMessage = system === undefined ? [] : [{ role: "system", content: system }];
  const messages = [...systemMessage, { role: "user", content: prompt }];
  const body = CHAT_REQUEST.read({ model: model.name, messages, stream: call.report !== undefined, ...sampling }, "");
  const chat = await prepareChat(model, body);
  const source = await openGenerations(chat.generator, [chat.request], 1, facts);
  const reader = new ChatChoice(chat.openParser(), chat.callFinish);
  const choice = new WholeChoice();
  const usage = new UsageSum(1);
  let reported = 0;
  for (let next = await source.next(); next !== undefined; next = await source.next()) {
    choice.add(reader.read(next.chunk), []);
    usage.set(0, next.chunk.usage);
    if (choice.content.length === reported) continue;
    const { outputTokens } = next.chunk.usage;
    call.report?.(outputTokens ?? choice.content.length, sampling.max_tokens, choice.content.slice(reported));
    reported = choice.content.length;
  }
  const counts = usage.value();
  const { content: text, reasoning, finish } = choice;
  return toolResult(
    {
      text,
      ...(reasoning === "" ? {} : { reasoning }),
      finish_reason: finish === "length" ? "length" : "stop",
      ...(counts && { prompt_tokens: counts.prompt_tokens, completion_tokens: counts.completion_tokens }),
    },
    text,
  );
}

/** Unknown names are refused: the schema says that there are no others. */
function readArguments(given: Readonly<Record<string, unknown>>): TextArguments {
  const known = Object.keys(Object(ARGUMENTS.json.properties));
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return ARGUMENTS.read(given, "");
  throw invalidArgument(`unknown argument '${unknown.slice(0, 100)}', expected some of ${known.join(", ")}`);
}
