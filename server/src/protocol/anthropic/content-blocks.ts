/**
 * Content blocks of a message, read to the few kinds that a model can see. Source: Anthropic's API reference, "Messages",
 * `messages[].content`.
 */
import { invalidParameter, missingParameter, unsupportedValue } from "../api/api-error.ts";
import { isObject, type JsonObject, shown } from "../api/schema.ts";
import { readImage } from "../openai/chat/image-source.ts";

export type ImageData = Uint8Array | string;

export type Block =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly image: ImageData }
  | { readonly type: "thinking"; readonly text: string }
  | { readonly type: "call"; readonly id: string; readonly name: string; readonly input: JsonObject }
  | { readonly type: "result"; readonly id: string; readonly text: string; readonly images: readonly ImageData[] };

/** Traces of tools that Anthropic's own service ran: another model has no use for them. */
const FOREIGN = /^(redacted_thinking|server_tool_use|container_upload|tool_reference|compaction|\w+_tool_result)$/;

/** A string counts as one text block. @throws ApiError */
export function readBlocks(content: unknown, path: string): readonly Block[] {
  if (content === undefined || content === null) throw missingParameter(path);
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (!Array.isArray(content)) {
    const expected = "expected a string or an array of content blocks";
    throw invalidParameter(path, "invalid_type", `Invalid type for '${path}': ${expected}, but got ${typeof content}.`);
  }
  return content.flatMap((block: unknown, i) => readBlock(block, `${path}[${i}]`));
}

function readBlock(block: unknown, path: string): readonly Block[] {
  if (!isObject(block)) throw invalidParameter(path, "invalid_type", `Invalid type for '${path}': expected an object.`);
  switch (block.type) {
    case "text":
      return [{ type: "text", text: expectText(block, "text", path) }];
    case "image":
      return [{ type: "image", image: readSource(block.source, `${path}.source`) }];
    case "document":
      return readDocument(block, path);
    case "search_result":
      return [{ type: "text", text: searchResult(block, path) }];
    case "thinking":
      return [{ type: "thinking", text: expectText(block, "thinking", path) }];
    case "tool_use":
      return [readCall(block, path)];
    case "tool_result":
      return [readResult(block, path)];
    case undefined:
      throw missingParameter(`${path}.type`);
    default:
      if (typeof block.type === "string" && FOREIGN.test(block.type)) return [];
      throw unsupportedValue(`${path}.type`, `Got '${shown(block.type)}'.`);
  }
}

function readSource(source: unknown, path: string): ImageData {
  if (!isObject(source)) throw missingParameter(path);
  switch (source.type) {
    case "base64": {
      const media = expectText(source, "media_type", path);
      return readImage(`data:${media};base64,${expectText(source, "data", path)}`, `${path}.data`);
    }
    case "url":
      return readImage(expectText(source, "url", path), `${path}.url`);
    default:
      throw unsupportedValue(`${path}.type`, "Supported values are: 'base64', and 'url'.");
  }
}

/** Documents of text become text; a PDF would need a reader of its own. */
function readDocument(block: JsonObject, path: string): readonly Block[] {
  const { source, title, context } = block;
  if (!isObject(source)) throw missingParameter(`${path}.source`);
  const head = [title, context].filter((text) => typeof text === "string" && text !== "");
  const heading = head.map((text) => ({ type: "text" as const, text: String(text) }));
  switch (source.type) {
    case "text":
      return [...heading, { type: "text", text: expectText(source, "data", `${path}.source`) }];
    case "content":
      return [...heading, ...readBlocks(source.content, `${path}.source.content`)];
    default:
      throw unsupportedValue(`${path}.source.type`, "Supported values are: 'text', and 'content'.");
  }
}

function searchResult(block: JsonObject, path: string): string {
  const head = [block.title, block.source].filter((text) => typeof text === "string");
  return [...head, textOf(readBlocks(block.content, `${path}.content`))].join("\n");
}

function readCall(block: JsonObject, path: string): Block {
  const { input } = block;
  if (input !== undefined && !isObject(input)) {
    throw invalidParameter(`${path}.input`, "invalid_type", `Invalid type for '${path}.input': expected an object.`);
  }
  return { type: "call", id: expectText(block, "id", path), name: expectText(block, "name", path), input: input ?? {} };
}

function readResult(block: JsonObject, path: string): Block {
  const id = expectText(block, "tool_use_id", path);
  const { content } = block;
  const inner = content === undefined || content === null ? [] : readBlocks(content, `${path}.content`);
  const text = textOf(inner);
  const isMarked = block.is_error !== true || /error/i.test(text);
  const images = inner.flatMap((each) => (each.type === "image" ? [each.image] : []));
  return { type: "result", id, text: isMarked ? text : `Error: ${text}`, images };
}

/** All text of the blocks, a line each. */
export function textOf(blocks: readonly Block[]): string {
  return blocks.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
}

function expectText(object: JsonObject, key: string, path: string): string {
  const value = object[key];
  if (typeof value === "string") return value;
  if (value === undefined || value === null) throw missingParameter(`${path}.${key}`);
  throw invalidParameter(
    `${path}.${key}`,
    "invalid_type",
    `Invalid type for '${path}.${key}': expected a string, but got ${typeof value}.`,
  );
}
