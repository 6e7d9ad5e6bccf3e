/** Conversations as plain lines, for a model without a chat template. */
import type { ChatMessage, TemplateVariables } from "../chat/chat-contract.ts";
import { describeTools } from "../chat/tool-description.ts";

/** `role: text` a line, and the start of the answer. */
export function renderPlain({ messages, tools, addGenerationPrompt }: TemplateVariables): string {
  const lines = describeTools(messages, tools ?? []).map((message) => `${message.role}: ${plainText(message)}\n`);
  return addGenerationPrompt ? `${lines.join("")}assistant:` : lines.join("");
}

function plainText({ content }: ChatMessage): string {
  if (content === null || typeof content === "string") return content ?? "";
  return content.map((part) => (part.type === "text" ? part.text : "<image>")).join("");
}
