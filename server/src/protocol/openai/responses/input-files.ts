/**
 * Files of a message, `input_file`: those of text become text. This server reads no other formats.
 * Sources: OpenAI's guide "File inputs"; RFC 2397.
 */
import { isUtf8 } from "node:buffer";
import { unsupportedValue } from "../../api/api-error.ts";
import { isObject, type JsonObject } from "../../api/schema.ts";

const DATA_URL = /^data:[\w.+/-]*(?:;[\w=.+-]+)*?;base64,/i;

/** @throws ApiError for a file that is no text */
export function withReadFiles(content: unknown, path: string): unknown {
  if (!Array.isArray(content)) return content;
  return content.map((part: unknown, i) => {
    return isObject(part) && part.type === "input_file" ? readFile(part, `${path}[${i}]`) : part;
  });
}

function readFile({ file_data: data, filename }: JsonObject, path: string): JsonObject {
  if (typeof data !== "string") {
    throw unsupportedValue(path, "This server keeps and fetches no files: send the text in 'file_data'.");
  }
  const bytes = Buffer.from(data.replace(DATA_URL, ""), "base64");
  if (!isUtf8(bytes) || bytes.includes(0)) throw unsupportedValue(path, "This server reads files of text only.");
  const head = typeof filename === "string" ? `${filename}:\n` : "";
  return { type: "input_text", text: head + bytes.toString() };
}
