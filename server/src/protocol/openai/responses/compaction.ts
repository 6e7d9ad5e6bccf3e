/**
 * A conversation as a summary, which the model itself writes. Source: own design; the item that holds it is that of OpenAI's
 * API reference, "Compact a response".
 */
import type { TextModel } from "../../../text-model/text-model.ts";
import type { CallFacts, TextUsage } from "../../../text-model/text-request.ts";
import type { JsonObject } from "../../api/schema.ts";
import { ChatChoice, WholeChoice } from "../chat/chat-choice.ts";
import type { ReadMessage } from "../chat/messages.ts";
import { prepareChat } from "../chat/prompt.ts";
import type { Tools } from "../chat/tools.ts";
import { openGenerations } from "../open-generations.ts";
import { asChat } from "./as-chat.ts";
import { prepareFitting } from "./fit-context.ts";
import { newItemId } from "./input-items.ts";
import { encodeText } from "./opaque-text.ts";
import type { ResponseRequest } from "./request.ts";

/** Tokens; fewer where the context is short. */
const MAX_SUMMARY_TOKENS = 1024;
const NO_TOOLS: Tools = { list: [], choice: "none", isParallel: true };
const TASK =
  "Write a summary of the conversation below, for an assistant who goes on with it and does not see it. Keep the goal, " +
  "decisions, facts, names, file paths, results of tools, and the steps that are left. Leave out everything else. " +
  "Answer with the summary alone.";

export interface Compaction {
  readonly item: JsonObject;
  readonly reasoning: string;
  /** That of the summary; undefined: the model gave nothing. */
  readonly usage: TextUsage | undefined;
}

/** The fields that a summary takes over from its request. */
type Fields = Pick<ResponseRequest, "model" | "prompt_cache_key" | "service_tier">;

/** The oldest messages are left out of a conversation that is longer than the context. @throws as a chat does */
export async function compacted(
  model: TextModel,
  { model: name, prompt_cache_key, service_tier }: Fields,
  messages: readonly ReadMessage[],
  call: CallFacts,
): Promise<Compaction> {
  const request = { model: name, prompt_cache_key, service_tier, input: [], max_output_tokens: MAX_SUMMARY_TOKENS };
  const chat = await prepareFitting(model, messages.map(asLine), MAX_SUMMARY_TOKENS, (lines) => {
    const text = `${TASK}\n\n<conversation>\n${lines.map(({ message }) => message.content).join("\n\n")}\n</conversation>`;
    return prepareChat(model, asChat(request, [userMessage(text)]), NO_TOOLS);
  });
  const source = await openGenerations(chat.generator, [chat.request], 1, call);
  const reader = new ChatChoice(chat.openParser());
  const choice = new WholeChoice();
  let usage: TextUsage | undefined;
  for (let next = await source.next(); next !== undefined; next = await source.next()) {
    choice.add(reader.read(next.chunk), []);
    usage = next.chunk.usage;
  }
  const { content, reasoning } = choice;
  // A model that has not come to an end of its reasoning has said what matters there.
  const text = content.trim() || reasoning.trim();
  const item = { id: newItemId("cmp"), type: "compaction", encrypted_content: encodeText(text) };
  return { item, reasoning, usage };
}

/** Any of them may come first, once those before it are left out. */
function asLine({ message }: ReadMessage): ReadMessage {
  const { role, content, tool_calls: calls = [] } = message;
  const parts =
    typeof content === "string"
      ? [content]
      : (content ?? []).map((part) => (part.type === "text" ? part.text : "(image)"));
  const called = calls.map(({ function: { name, arguments: given } }) => `calls ${name}(${JSON.stringify(given)})`);
  return userMessage(`${role}: ${[...parts, ...called].join("\n")}`);
}

function userMessage(content: string): ReadMessage {
  return { message: { role: "user", content }, images: [] };
}
