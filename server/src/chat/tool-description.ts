/** Tools for a model whose template knows none: their description joins the system message, and asks for JSON between marks. */
import type { ChatMessage, ChatTool, ContentPart } from "./chat-contract.ts";

export function describeTools(messages: readonly ChatMessage[], tools: readonly ChatTool[]): readonly ChatMessage[] {
  if (tools.length === 0) return messages;
  const description = toolText(tools);
  const [first, ...rest] = messages;
  if (first?.role !== "system") return [{ role: "system", content: description }, ...messages.map(withPlainCalls)];
  return [{ ...first, content: `${textOf(first.content)}\n\n${description}` }, ...rest.map(withPlainCalls)];
}

function toolText(tools: readonly ChatTool[]): string {
  const lines = tools.map((tool) => JSON.stringify(tool.function));
  return [
    "You can call these functions. Each line is one function with the JSON schema of its arguments:",
    ...lines,
    "To call one, write <tool_call>, then a JSON object with its name and arguments, then </tool_call>:",
    '<tool_call>{"name": "function", "arguments": {"argument": "value"}}</tool_call>',
  ].join("\n");
}

/** Earlier calls and their results as text: the template would leave them out, or refuse their roles. */
function withPlainCalls(message: ChatMessage): ChatMessage {
  if (message.role === "tool")
    return { role: "user", content: `<tool_response>${textOf(message.content)}</tool_response>` };
  if (message.tool_calls === undefined || message.tool_calls.length === 0) return message;
  const calls = message.tool_calls.map((call) => `<tool_call>${JSON.stringify(call.function)}</tool_call>`);
  return { role: message.role, content: [textOf(message.content), ...calls].filter(Boolean).join("\n") };
}

function textOf(content: string | readonly ContentPart[] | null): string {
  if (content === null || typeof content === "string") return content ?? "";
  return content.map((part) => (part.type === "text" ? part.text : "")).join("");
}
