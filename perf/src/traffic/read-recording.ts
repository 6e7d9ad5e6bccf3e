/** Reads recorded traffic. @throws ToolError with the line that is wrong */
import { closeSync, existsSync, openSync, readFileSync, readSync } from "node:fs";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import {
  type Body,
  bodiesPath,
  type Exchange,
  type ExchangeLine,
  FORMAT,
  FORMAT_VERSION,
  type RecordingHead,
} from "./recording.ts";

export interface Recording {
  readonly head: RecordingHead;
  /** By the time at which their requests came. */
  readonly exchanges: readonly Exchange[];
  /** Requests whose bodies were left out. */
  readonly numWithoutBody: number;
}

export function readRecording(path: string): Recording {
  const lines = textOf(path).split("\n");
  const head = parseLine(lines[0] ?? "", path, 1) as Partial<RecordingHead>;
  if (head.format !== FORMAT || head.version !== FORMAT_VERSION) {
    throw new ToolError(`expected a recording of nereid record, version ${FORMAT_VERSION}`, {
      at: { file: path, line: 1 },
    });
  }
  using bodies = new BodyFile(bodiesPath(path));
  const exchanges: Exchange[] = [];
  let numWithoutBody = 0;
  for (const [k, text] of lines.entries()) {
    if (k === 0 || text.trim() === "") continue;
    const exchange = exchangeOf(parseLine(text, path, k + 1), bodies, path, k + 1);
    if (exchange === undefined) numWithoutBody += 1;
    else exchanges.push(exchange);
  }
  exchanges.sort((a, b) => a.atMs - b.atMs);
  return { head: head as RecordingHead, exchanges, numWithoutBody };
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw fileError("read", path, error);
  }
}

function parseLine(text: string, file: string, line: number): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ToolError(`expected a JSON object, got '${text.slice(0, 80)}'`, {
      at: { file, line },
      fix: "A recording that was cut off can be read without its last line",
    });
  }
}

function exchangeOf(value: unknown, bodies: BodyFile, file: string, line: number): Exchange | undefined {
  const { at_ms, protocol, method, path, headers, body, answer } = value as Partial<ExchangeLine>;
  const isWhole = typeof at_ms === "number" && typeof path === "string" && Array.isArray(body) && answer !== undefined;
  if (!isWhole || !["http", "grpc"].includes(String(protocol)) || !Array.isArray(answer.body)) {
    throw new ToolError("expected an exchange with at_ms, protocol, path, body and answer", { at: { file, line } });
  }
  const request = bodies.all(body);
  if (request === undefined) return undefined;
  return {
    atMs: at_ms,
    protocol: protocol === "grpc" ? "grpc" : "http",
    method: method ?? "POST",
    path,
    headers: headers ?? [],
    bodies: request,
    answer: {
      status: answer.status,
      message: answer.message ?? "",
      headers: answer.headers,
      bodies: bodies.all(answer.body),
      ms: answer.ms,
    },
  };
}

class BodyFile {
  readonly #path: string;
  readonly #file: number | undefined;

  constructor(path: string) {
    this.#path = path;
    this.#file = existsSync(path) ? openSync(path, "r") : undefined;
  }

  /** Undefined when one is left out. */
  all(bodies: readonly Body[]): readonly Buffer[] | undefined {
    const read = bodies.map((body) => this.#read(body));
    return read.every((each) => each !== undefined) ? read : undefined;
  }

  [Symbol.dispose](): void {
    if (this.#file !== undefined) closeSync(this.#file);
  }

  #read(body: Body): Buffer | undefined {
    if ("text" in body) return Buffer.from(body.text);
    if ("omitted" in body) return undefined;
    const { offset, length } = body;
    const bytes = Buffer.alloc(length);
    const got = this.#file === undefined ? 0 : readSync(this.#file, bytes, 0, length, offset);
    if (got !== length) throw new ToolError(`${this.#path}: expected ${length} bytes at ${offset}, got ${got}`);
    return bytes;
  }
}
