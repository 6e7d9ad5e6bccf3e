/**
 * Turns of a conversation in the form that chat templates take: results of tools are messages of their own, and turns of
 * one role in a row are one message. Source: Anthropic's API reference, "Messages", `messages`, `system`.
 */
import type { ChatMessage, ContentPart } from "../../chat/chat-contract.ts";
import { MAX_IMAGES } from "../../core/limits.ts";
import { missingParameter, unsupportedValue } from "../api/api-error.ts";
import { anyObject, array, type JsonObject, mapped, oneOf, type Schema } from "../api/schema.ts";
import type { ReadMessage } from "../openai/chat/messages.ts";
import { type Block, type ImageData, readBlocks, textOf } from "./content-blocks.ts";

export type Role = "user" | "assistant" | "system";

export interface Turn {
  readonly role: Role;
  readonly blocks: readonly Block[];
}

const ROLE = oneOf("user", "assistant", "system");
const MAX_TURNS = 100_000;

export const TURNS: Schema<readonly Turn[]> = mapped(array(mapped(anyObject(), readTurn), 1, MAX_TURNS), mergeTurns);

/** Claude Code puts a line with a hash of each request in front of its prompt, which no later request shares. */
const BILLING_LINE = /^x-anthropic-billing-header:/;

/** Text of the field `system`. @throws ApiError */
export function readSystem(value: unknown, path: string): string {
  return textOf(readBlocks(value, path).filter((block) => block.type !== "text" || !BILLING_LINE.test(block.text)));
}

/** @throws ApiError */
function readTurn(value: JsonObject, path: string): Turn {
  if (value.role === undefined) throw missingParameter(`${path}.role`);
  const role = ROLE.read(value.role, `${path}.role`);
  const blocks = readBlocks(value.content, `${path}.content`);
  if (imagesOf(blocks).length > MAX_IMAGES) {
    throw unsupportedValue(`${path}.content`, `A message holds at most ${MAX_IMAGES} images.`);
  }
  return { role, blocks };
}

function mergeTurns(turns: readonly Turn[]): readonly Turn[] {
  const merged: Turn[] = [];
  for (const turn of turns) {
    const last = merged.at(-1);
    if (last?.role !== turn.role) merged.push(turn);
    else merged[merged.length - 1] = { role: turn.role, blocks: [...last.blocks, ...turn.blocks] };
  }
  return merged;
}

/** The answer goes on from the text of the last turn. */
export function continuesLast(turns: readonly Turn[]): boolean {
  const last = turns.at(-1);
  return last?.role === "assistant" && textOf(last.blocks) !== "" && !last.blocks.some(({ type }) => type === "call");
}

export function messagesOf(system: string | undefined, turns: readonly Turn[]): readonly ReadMessage[] {
  const names = new Map<string, string>();
  const head: ReadMessage[] = [];
  if (system !== undefined && system !== "") head.push({ message: { role: "system", content: system }, images: [] });
  return [...head, ...turns.flatMap((turn) => messagesOfTurn(turn, names))];
}

/** `names` of the calls so far: templates show the tool of a result. */
function messagesOfTurn({ role, blocks }: Turn, names: Map<string, string>): readonly ReadMessage[] {
  if (role === "assistant") return [assistantMessage(blocks, names)];
  const results = blocks.flatMap((block) => (block.type === "result" ? [resultMessage(block, names)] : []));
  const images = imagesOf(blocks);
  const rest = blocks.filter(({ type }) => type === "text" || type === "image");
  if (rest.length === 0 && images.length === 0 && results.length > 0) return results;
  return [...results, { message: { role, content: contentOf(blocks) }, images }];
}

function assistantMessage(blocks: readonly Block[], names: Map<string, string>): ReadMessage {
  const calls = blocks.flatMap((block) => {
    if (block.type !== "call") return [];
    names.set(block.id, block.name);
    return [{ id: block.id, type: "function" as const, function: { name: block.name, arguments: block.input } }];
  });
  const text = textOf(blocks);
  const reasoning = blocks.flatMap((block) => (block.type === "thinking" ? [block.text] : [])).join("\n");
  const message: ChatMessage = {
    role: "assistant",
    content: text === "" && calls.length > 0 ? null : text,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return { message, images: [] };
}

function resultMessage(
  { id, text }: Extract<Block, { type: "result" }>,
  names: ReadonlyMap<string, string>,
): ReadMessage {
  const name = names.get(id);
  const message = { role: "tool", tool_call_id: id, content: text, ...(name === undefined ? {} : { name }) };
  return { message, images: [] };
}

/** Images of results come first in the user's message: few templates take them in the message of a tool. */
function imagesOf(blocks: readonly Block[]): readonly ImageData[] {
  const ofResults = blocks.flatMap((block) => (block.type === "result" ? block.images : []));
  return [...ofResults, ...blocks.flatMap((block) => (block.type === "image" ? [block.image] : []))];
}

function contentOf(blocks: readonly Block[]): ChatMessage["content"] {
  const ofResults = blocks.flatMap((block) => (block.type === "result" ? block.images : []));
  const parts: ContentPart[] = ofResults.map(() => ({ type: "image" }));
  for (const block of blocks) {
    if (block.type === "text") parts.push(block);
    else if (block.type === "image") parts.push({ type: "image" });
  }
  return parts.some(({ type }) => type === "image") ? parts : textOf(blocks);
}
