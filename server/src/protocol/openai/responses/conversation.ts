/**
 * Items of a conversation as messages of a chat. Reasoning, text and calls that follow each other are one message of the
 * assistant, since templates expect the results of calls right behind it. Source: OpenAI's guide "Conversation state".
 */
import type { ChatMessage, ChatToolCall } from "../../../chat/chat-contract.ts";
import { invalidParameter, missingParameter } from "../../api/api-error.ts";
import { isObject, type JsonObject, oneOf } from "../../api/schema.ts";
import { parseArguments, type ReadMessage, readMessage } from "../chat/messages.ts";
import { withReadFiles } from "./input-files.ts";
import { kindOf } from "./input-items.ts";
import { decodeText } from "./opaque-text.ts";
import { reasoningText } from "./reasoning-text.ts";
import { chatToolName } from "./tools.ts";

/** An item with its place in the request, for errors. */
export interface PlacedItem {
  readonly item: JsonObject;
  readonly path: string;
}

const ROLE = oneOf("assistant", "system", "developer", "user");

/** @throws ApiError */
export function messagesOf(instructions: string | undefined, items: readonly PlacedItem[]): readonly ReadMessage[] {
  const builder = new ConversationBuilder();
  for (const { item, path } of items) builder.add(item, path);
  const messages = builder.end();
  const all = instructions === undefined ? messages : [systemMessage(instructions), ...messages];
  if (all.length > 0) return withOneSystem(all);
  throw invalidParameter("input", "invalid_value", "Invalid 'input': expected at least one message.");
}

function systemMessage(content: string): ReadMessage {
  return { message: { role: "system", content }, images: [] };
}

/** Most templates know one system message, at the start; agents send several there. */
function withOneSystem(messages: readonly ReadMessage[]): readonly ReadMessage[] {
  const end = messages.findIndex(({ message: { role } }) => role !== "system" && role !== "developer");
  const leading = messages.slice(0, end < 0 ? messages.length : end);
  if (leading.length < 2 || leading.some(({ message }) => typeof message.content !== "string")) return messages;
  const text = leading.map(({ message }) => String(message.content)).join("\n\n");
  return [systemMessage(text), ...messages.slice(leading.length)];
}

/** The assistant's message as far as it has come. */
interface Turn {
  reasoning: string;
  content: string | null;
  readonly calls: ChatToolCall[];
}

class ConversationBuilder {
  readonly #messages: ReadMessage[] = [];
  #turn: Turn | undefined;
  /** The latest; it stands for those before it too. */
  #summary: ReadMessage | undefined;

  add(item: JsonObject, path: string): void {
    switch (kindOf(String(item.type))) {
      case "message":
        this.#addMessage(item, path);
        break;
      case "reasoning":
        this.#addReasoning(reasoningText(item));
        break;
      case "call":
        this.#addCall(item, path);
        break;
      case "output":
        this.#addOutput(item, path);
        break;
      case "compaction":
        this.#addSummary(decodeText(item.encrypted_content));
        break;
      default:
        break;
    }
  }

  end(): readonly ReadMessage[] {
    this.#flush();
    return this.#messages;
  }

  #addMessage(item: JsonObject, path: string): void {
    const role = roleOf(item, path);
    const read = readMessage({ role, content: withReadFiles(item.content, `${path}.content`) }, path);
    if (role !== "assistant") {
      this.#flush();
      this.#messages.push(read);
      return;
    }
    const { content } = read.message;
    const text = typeof content === "string" ? content : "";
    if (this.#turn !== undefined && this.#turn.content !== null && this.#turn.calls.length === 0) this.#flush();
    const turn = this.#open();
    turn.content = turn.content === null ? text : `${turn.content}\n${text}`;
  }

  #addReasoning(text: string): void {
    if (this.#turn !== undefined && this.#turn.content !== null && this.#turn.calls.length === 0) this.#flush();
    const turn = this.#open();
    turn.reasoning += turn.reasoning === "" ? text : `\n${text}`;
  }

  /**
   * Stands for all before it but the words of users, and every template takes a user's message at any place. Summaries of
   * other servers cannot be read.
   */
  #addSummary(text: string): void {
    if (text === "") return;
    this.#flush();
    const kept = this.#messages.filter((each) => each !== this.#summary && isGiven(each));
    this.#summary = { message: { role: "user", content: `Summary of the conversation so far:\n${text}` }, images: [] };
    this.#messages.splice(0, this.#messages.length, ...kept, this.#summary);
  }

  /** A call that another server ran has its result beside it. */
  #addCall(item: JsonObject, path: string): void {
    const call = callOf(item, path);
    if (call === undefined) return;
    this.#open().calls.push(call);
    if (item.type !== "mcp_call" || typeof item.output !== "string") return;
    this.#pushResult(call.id, item.output, path);
  }

  #addOutput(item: JsonObject, path: string): void {
    const id = typeof item.call_id === "string" ? item.call_id : item.id;
    if (typeof id !== "string") throw missingParameter(`${path}.call_id`);
    if (item.output === undefined) throw missingParameter(`${path}.output`);
    this.#pushResult(id, item.output, path);
  }

  #pushResult(id: string, output: unknown, path: string): void {
    this.#flush();
    const isContent = typeof output === "string" || (Array.isArray(output) && output.every(isContentPart));
    const content = isContent ? withReadFiles(output, `${path}.output`) : JSON.stringify(output);
    this.#messages.push(readMessage({ role: "tool", tool_call_id: id, content }, path));
  }

  #open(): Turn {
    this.#turn ??= { reasoning: "", content: null, calls: [] };
    return this.#turn;
  }

  #flush(): void {
    if (this.#turn === undefined) return;
    const { reasoning, content, calls } = this.#turn;
    this.#turn = undefined;
    if (content === null && calls.length === 0) return; // reasoning without an answer
    const message: ChatMessage = {
      role: "assistant",
      content,
      ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    };
    this.#messages.push({ message, images: [] });
  }
}

function isGiven({ message: { role } }: ReadMessage): boolean {
  return role !== "assistant" && role !== "tool";
}

/** An agent's message to another is a user's for the model. @throws ApiError */
function roleOf({ type, role }: JsonObject, path: string): string {
  if (type === "agent_message") return "user";
  if (role === undefined) throw missingParameter(`${path}.role`);
  return ROLE.read(role, `${path}.role`);
}

function isContentPart(part: unknown): boolean {
  return isObject(part) && typeof part.type === "string" && /^(input_|output_text|text$)/.test(part.type);
}

/** Undefined: a call that OpenAI's service ran and that names no tool. @throws ApiError */
function callOf(item: JsonObject, path: string): ChatToolCall | undefined {
  const id = item.call_id ?? item.id;
  const isNamed = item.type === "function_call" || item.type === "custom_tool_call";
  if (isNamed && typeof item.call_id !== "string") throw missingParameter(`${path}.call_id`);
  if (isNamed && typeof item.name !== "string") throw missingParameter(`${path}.name`);
  if (typeof id !== "string" || (typeof item.call_id !== "string" && item.type !== "mcp_call")) return undefined;
  return { id, type: "function", function: { name: nameOf(item), arguments: argumentsOf(item) } };
}

function nameOf({ type, name, namespace }: JsonObject): string {
  if (typeof name !== "string") return String(type).replace(/_call$/, "");
  return chatToolName(name, typeof namespace === "string" ? namespace : undefined);
}

/** Built-in tools have a member of their own that says what to do. */
function argumentsOf(item: JsonObject): unknown {
  if (item.type === "custom_tool_call") return { input: item.input ?? "" };
  return parseArguments(item.arguments ?? item.action ?? item.operation);
}
