/**
 * A conversation for templates with strict rules of roles: one system message, at the start, then users and assistants in
 * turn. OpenAI's API takes any order, and agents send several messages of one role in a row.
 * Sources: the chat templates of Mistral and Gemma, which refuse other orders.
 */
import type { ChatMessage, ContentPart } from "../../../chat/chat-contract.ts";

/** Undefined: it follows the rules already. */
export function withStrictRoles(messages: readonly ChatMessage[]): readonly ChatMessage[] | undefined {
  const strict: ChatMessage[] = [];
  for (const message of messages.map(asSpoken)) {
    const last = strict.at(-1);
    if (last !== undefined && canJoin(last, message)) strict[strict.length - 1] = joined(last, message);
    else strict.push(message);
  }
  const isSame = strict.length === messages.length && strict.every(({ role }, i) => role === messages[i]?.role);
  return isSame ? undefined : strict;
}

/** A user says what the system says in between. */
function asSpoken(message: ChatMessage, index: number, all: readonly ChatMessage[]): ChatMessage {
  if (!isSystem(message)) return message;
  const isLeading = all.slice(0, index).every(isSystem);
  return { ...message, role: isLeading ? "system" : "user" };
}

function isSystem({ role }: ChatMessage): boolean {
  return role === "system" || role === "developer";
}

/** Results of tools belong to their calls, one message each. */
function canJoin(a: ChatMessage, b: ChatMessage): boolean {
  return a.role === b.role && a.role !== "tool" && a.tool_calls === undefined;
}

function joined(a: ChatMessage, b: ChatMessage): ChatMessage {
  const isText = !Array.isArray(a.content) && !Array.isArray(b.content);
  const content = isText
    ? [a.content, b.content].filter((text) => text !== null && text !== "").join("\n\n")
    : [...partsOf(a), ...partsOf(b)];
  return { ...a, ...b, content };
}

function partsOf({ content }: ChatMessage): readonly ContentPart[] {
  if (content === null) return [];
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}
