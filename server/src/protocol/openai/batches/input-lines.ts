/** Lines of a batch's input file, and their faults. Sources: OpenAI's API reference, "The request input object"; JSON Lines. */
import { describeThrown } from "../../../core/server-error.ts";
import { ApiError } from "../../api/api-error.ts";
import { anyObject, type JsonObject, object, oneOf, required, type Schema, string } from "../../api/schema.ts";
import type { Endpoint, InputFault } from "./batch.ts";

export interface InputLine {
  readonly custom_id: string;
  readonly method: "POST";
  readonly url: string;
  readonly body: JsonObject;
}

/** OpenAI's limit. */
const MAX_REQUESTS = 50_000;
const MAX_FAULTS = 50;
const MAX_ID_LENGTH = 512;
const LINE_FEED = 0x0a;

const INPUT_LINE: Schema<InputLine> = object<InputLine>({
  custom_id: required(string(MAX_ID_LENGTH)),
  method: required(oneOf("POST")),
  url: required(string(MAX_ID_LENGTH)),
  body: required(anyObject()),
});

export interface TextLine {
  readonly text: string;
  /** From 1. */
  readonly number: number;
  /** Bytes of the file up to the line's end. */
  readonly end: number;
  /** The file goes on or ends behind its line feed. */
  readonly isWhole: boolean;
}

/** Blank lines are left out. @throws ApiError for a line above `maxBytes` */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<TextLine, void> {
  let held: Uint8Array[] = [];
  let size = 0;
  let number = 0;
  let end = 0;
  const take = (isWhole: boolean): TextLine => {
    const text = Buffer.concat(held).toString("utf8").trim();
    held = [];
    number += 1;
    end += size + (isWhole ? 1 : 0);
    size = 0;
    return { text, number, end, isWhole };
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, start)) {
      held.push(chunk.subarray(start, at));
      size += at - start;
      start = at + 1;
      expectSize(size, maxBytes, number);
      const line = take(true);
      if (line.text !== "") yield line;
    }
    if (start < chunk.length) held.push(chunk.subarray(start));
    size += chunk.length - start;
    expectSize(size, maxBytes, number);
  }
  if (size === 0) return;
  const last = take(false);
  if (last.text !== "") yield last;
}

function expectSize(size: number, maxBytes: number, number: number): void {
  if (size <= maxBytes) return;
  const message = `Line ${number + 1} is too long: expected at most ${maxBytes} bytes.`;
  throw new ApiError({ status: 400, type: "invalid_request_error", code: "line_too_long", param: null, message });
}

/** @throws ApiError that names the member */
export function readLine(text: string, endpoint: Endpoint): InputLine {
  const line = INPUT_LINE.read(parse(text), "");
  if (line.url === endpoint) return line;
  const message = `The url '${line.url}' does not match the endpoint of the batch, '${endpoint}'.`;
  throw new ApiError({ status: 400, type: "invalid_request_error", code: "invalid_url", param: "url", message });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const message = "This line is not parseable as valid JSON.";
    throw new ApiError({ status: 400, type: "invalid_request_error", code: "invalid_json_line", param: null, message });
  }
}

/** Reads the whole file; nothing runs when any line is wrong. */
export async function checkInput(
  lines: AsyncIterable<TextLine>,
  endpoint: Endpoint,
): Promise<{ readonly total: number; readonly faults: readonly InputFault[] }> {
  const ids = new Set<string>();
  const faults: InputFault[] = [];
  let total = 0;
  try {
    for await (const { text, number } of lines) {
      total += 1;
      const fault = total > MAX_REQUESTS ? TOO_MANY : faultOf(text, endpoint, ids);
      if (fault !== undefined) faults.push({ ...fault, line: number });
      if (fault === TOO_MANY || faults.length === MAX_FAULTS) break;
    }
  } catch (error) {
    faults.push(asFault(error));
  }
  if (total === 0 && faults.length === 0) {
    faults.push({
      code: "empty_file",
      message: "The input file is empty. Please ensure that the batch contains at least one request.",
    });
  }
  return { total, faults };
}

const TOO_MANY: InputFault = {
  code: "too_many_tasks",
  message: `The input file has too many requests: expected at most ${MAX_REQUESTS}.`,
};

function faultOf(text: string, endpoint: Endpoint, ids: Set<string>): InputFault | undefined {
  try {
    const { custom_id: id } = readLine(text, endpoint);
    if (ids.has(id)) {
      const message = `The custom_id '${id}' is not unique in this file.`;
      return { code: "duplicate_custom_id", message, param: "custom_id" };
    }
    ids.add(id);
    return undefined;
  } catch (error) {
    return asFault(error);
  }
}

export function asFault(thrown: unknown): InputFault {
  if (!(thrown instanceof ApiError)) return { code: "server_error", message: describeThrown(thrown) };
  const { code, message, param } = thrown;
  return { code: code ?? "invalid_request", message, param: param ?? undefined };
}
