/** The chat form of a model without a template: one line for each message. Its answers are text. */
import type { ChatFormat, ChatMessage, OutputDelta, OutputParser, TemplateVariables } from "../chat/chat-contract.ts";

const NO_DELTAS: readonly OutputDelta[] = [];

export class PlainParser implements OutputParser {
  push(text: string): readonly OutputDelta[] {
    return text === "" ? NO_DELTAS : [{ type: "text", text }];
  }

  end(): readonly OutputDelta[] {
    return NO_DELTAS;
  }
}

export const PLAIN_CHAT: ChatFormat = Object.freeze({
  template: undefined,
  tools: {
    name: "none",
    specialTokens: [],
    grammarFor: () => undefined,
    openParser: () => new PlainParser(),
  },
  reasoning: undefined,
  openParser: () => new PlainParser(),
  close: () => Promise.resolve(),
});

/** `role: text` a line, and the start of the answer. */
export function renderPlain({ messages, addGenerationPrompt }: TemplateVariables): string {
  const lines = messages.map((message) => `${message.role}: ${plainText(message)}\n`);
  return addGenerationPrompt ? `${lines.join("")}assistant:` : lines.join("");
}

function plainText({ content }: ChatMessage): string {
  if (content === null || typeof content === "string") return content ?? "";
  return content.map((part) => (part.type === "text" ? part.text : "<image>")).join("");
}
