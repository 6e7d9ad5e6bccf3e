/** Streams the records to index: JSON lines, CSV rows, or the images of a folder. */
import { createReadStream } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { basename, dirname, extname, join, relative, resolve } from "node:path";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import type { DocumentObject, DocumentValue } from "../stores/vector-store.ts";
import { type CsvRow, CsvSplitter } from "./csv.ts";

export interface IndexRecord {
  readonly id: string;
  /** Input of the encoder: a text, or the bytes of an image. */
  readonly content: string | Uint8Array;
  readonly document: DocumentObject;
}

export interface RecordFields {
  readonly id: string;
  readonly text: string;
  /** Undefined: records are texts. Else the member with the path of an image, relative to the file's folder. */
  readonly image: string | undefined;
}

const IMAGES: readonly string[] = [".png", ".jpg", ".jpeg", ".webp"];
const MAX_LINE_CHARS = 16 * 1024 * 1024;
const MAX_ID_CHARS = 512;

/** By the kind of input: a folder, `.csv`, anything else as lines of JSON. @throws ToolError naming the file and line */
export async function* readRecords(input: string, fields: RecordFields): AsyncGenerator<IndexRecord> {
  const info = await stat(input).catch((error: unknown) => {
    throw fileError("read", input, error);
  });
  if (info.isDirectory()) yield* readImages(input);
  else if (extname(input).toLowerCase() === ".csv") yield* readCsv(input, fields);
  else yield* readJsonLines(input, fields);
}

async function* readImages(folder: string): AsyncGenerator<IndexRecord> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile() && IMAGES.includes(extname(entry.name).toLowerCase()))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  if (files.length === 0)
    throw new ToolError(`${folder} has no images`, { fix: `Expected files ending in ${IMAGES.join(", ")}` });
  for (const file of files) {
    const path = relative(folder, file);
    yield { id: path, content: await readImage(file), document: { path } };
  }
}

async function* readJsonLines(path: string, fields: RecordFields): AsyncGenerator<IndexRecord> {
  let rest = "";
  let line = 0;
  for await (const piece of createReadStream(path, { encoding: "utf8" })) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > MAX_LINE_CHARS)
      throw new ToolError(`A line is longer than ${MAX_LINE_CHARS} characters`, {
        at: { file: path, line: line + lines.length + 1 },
      });
    for (const text of lines) yield* parseLine(text, path, ++line, fields);
  }
  yield* parseLine(rest, path, line + 1, fields);
}

async function* parseLine(text: string, file: string, line: number, fields: RecordFields): AsyncGenerator<IndexRecord> {
  if (text.trim() === "") return;
  const value = tryParse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    const fix = `Every line is a JSON object such as {"${fields.id}": "1", "${fields.text}": "a text"}`;
    throw new ToolError(`Not a JSON object: ${text.slice(0, 60)}`, { fix, at: { file, line } });
  }
  yield await recordOf(value as DocumentObject, file, line, fields);
}

async function* readCsv(path: string, fields: RecordFields): AsyncGenerator<IndexRecord> {
  const splitter = new CsvSplitter();
  let header: readonly string[] | undefined;
  const records = async function* (rows: readonly CsvRow[]): AsyncGenerator<IndexRecord> {
    for (const { cells, line } of rows) {
      if (header === undefined) {
        header = cells.map((cell) => cell.replace(/^\ufeff/, "").trim());
        continue;
      }
      if (cells.length !== header.length) {
        throw new ToolError(`Expected ${header.length} cells as in the first line, got ${cells.length}`, {
          at: { file: path, line },
        });
      }
      const document = Object.fromEntries(header.map((name, i) => [name, cells[i] ?? ""]));
      yield await recordOf(document, path, line, fields);
    }
  };
  for await (const piece of createReadStream(path, { encoding: "utf8" })) yield* records(splitter.push(piece));
  try {
    yield* records(splitter.finish());
  } catch (error) {
    throw error instanceof ToolError ? error : new ToolError(`${path}: ${String(error)}`);
  }
}

async function recordOf(
  document: DocumentObject,
  file: string,
  line: number,
  fields: RecordFields,
): Promise<IndexRecord> {
  const at = { file, line };
  const id = memberOf(document, fields.id);
  if ((typeof id !== "string" && typeof id !== "number") || String(id) === "" || String(id).length > MAX_ID_CHARS) {
    const fix = "Name the member with --id_field";
    throw new ToolError(
      `Expected '${fields.id}' to be an id of 1 to ${MAX_ID_CHARS} characters, got ${JSON.stringify(id)}`,
      { fix, at },
    );
  }
  if (fields.image !== undefined) {
    const path = memberOf(document, fields.image);
    if (typeof path !== "string") throw new ToolError(`Expected '${fields.image}' to be the path of an image`, { at });
    return { id: String(id), content: await readImage(resolve(dirname(file), path)), document };
  }
  const text = memberOf(document, fields.text);
  if (typeof text === "string" && text !== "") return { id: String(id), content: text, document };
  const fix = "Name the member with --text_field";
  throw new ToolError(`Expected '${fields.text}' to be a text, got ${JSON.stringify(text)}`, { fix, at });
}

function memberOf(document: DocumentObject, name: string): DocumentValue | undefined {
  return Object.hasOwn(document, name) ? document[name] : undefined;
}

async function readImage(path: string): Promise<Uint8Array> {
  return readFile(path).catch((error: unknown) => {
    throw fileError("read", path, error);
  });
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Default name of a collection. */
export function collectionNameOf(input: string): string {
  const name = basename(resolve(input))
    .replace(/\.[^.]*$/, "")
    .replace(/[^A-Za-z0-9_]/g, "_");
  return /^[A-Za-z_]/.test(name) ? name.slice(0, 48) : `c_${name}`.slice(0, 48);
}
