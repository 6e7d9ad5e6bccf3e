/**
 * Collections in memory, stored as `<folder>/<collection>.jsonl`: one line per row, where the last line of an id
 * counts. For exact search over some ten thousand rows. Source: JSON Lines (jsonlines.org).
 */
import { appendFile, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { invalidArgument, ServerError } from "@nereid/server/core/server-error";
import { matches } from "./filter.ts";
import { lengthOf, type Matrix, nearest } from "./nearest.ts";
import type { CollectionShape, DocumentObject, Hit, Row, SearchQuery, VectorStore } from "./vector-store.ts";

interface Entry {
  readonly id: string;
  readonly document: DocumentObject;
  readonly digest: string;
}

/** The first line of a file. */
interface Head {
  readonly dimensions: number;
}

export class MemoryStore implements VectorStore {
  readonly location: string;
  readonly #folder: string;
  readonly #collections = new Map<string, MemoryCollection>();

  constructor(folder: string) {
    this.location = `memory:${folder}`;
    this.#folder = folder;
  }

  async search(name: string, query: SearchQuery): Promise<readonly (readonly Hit[])[]> {
    return (await this.#collection(name)).search(query);
  }

  async create(name: string, { dimensions }: CollectionShape): Promise<void> {
    const found = await this.#read(name);
    if (found !== undefined) {
      if (found.dimensions === dimensions) return;
      throw dimensionMismatch(name, found.dimensions, dimensions);
    }
    await mkdir(this.#folder, { recursive: true });
    await appendFile(this.#path(name), `${JSON.stringify({ dimensions } satisfies Head)}\n`);
    this.#collections.set(name, new MemoryCollection(dimensions));
  }

  async upsert(name: string, rows: readonly Row[]): Promise<void> {
    const collection = await this.#collection(name);
    await appendFile(this.#path(name), rows.map(lineOf).join(""));
    for (const row of rows) collection.put(row);
  }

  async digests(name: string, ids: readonly string[]): Promise<readonly (string | undefined)[]> {
    const collection = await this.#collection(name);
    return ids.map((id) => collection.digest(id));
  }

  close(): Promise<void> {
    this.#collections.clear();
    return Promise.resolve();
  }

  async #collection(name: string): Promise<MemoryCollection> {
    const found = await this.#read(name);
    if (found !== undefined) return found;
    throw new ServerError("not_found", `collection '${name}' is not in ${this.location}; make it with nereid index`);
  }

  async #read(name: string): Promise<MemoryCollection | undefined> {
    const held = this.#collections.get(name);
    if (held !== undefined) return held;
    let text: string;
    try {
      text = await readFile(this.#path(name), "utf8");
    } catch {
      return undefined;
    }
    const collection = this.#parse(name, text);
    this.#collections.set(name, collection);
    return collection;
  }

  #parse(name: string, text: string): MemoryCollection {
    const [head = "", ...lines] = text.split("\n");
    const { dimensions } = JSON.parse(head) as Head;
    const collection = new MemoryCollection(dimensions);
    lines.forEach((line, index) => {
      const row = parseLine(line, dimensions);
      if (row !== undefined) collection.put(row);
      // Only the last line can be truncated by a crash; its row is written again.
      else if (line !== "" && index < lines.length - 1) {
        throw invalidArgument(`${this.#path(name)}: line ${index + 2} is no row of ${dimensions} numbers`);
      }
    });
    return collection;
  }

  #path(name: string): string {
    return join(this.#folder, `${name}.jsonl`);
  }
}

class MemoryCollection {
  readonly dimensions: number;
  readonly #entries: Entry[] = [];
  readonly #rows = new Map<string, number>();
  #values: Float32Array;
  #lengths: Float64Array;

  constructor(dimensions: number) {
    this.dimensions = dimensions;
    this.#values = new Float32Array(dimensions);
    this.#lengths = new Float64Array(1);
  }

  put({ id, vector, document, digest }: Row): void {
    if (vector.length !== this.dimensions) throw vectorLengthMismatch(vector.length, this.dimensions);
    const row = this.#rows.get(id) ?? this.#entries.length;
    if (row * this.dimensions >= this.#values.length) this.#grow();
    this.#rows.set(id, row);
    this.#entries[row] = { id, document, digest };
    this.#values.set(vector, row * this.dimensions);
    this.#lengths[row] = lengthOf(vector);
  }

  digest(id: string): string | undefined {
    const row = this.#rows.get(id);
    return row === undefined ? undefined : this.#entries[row]?.digest;
  }

  search({ vectors, k, metric, filter }: SearchQuery): readonly (readonly Hit[])[] {
    const matrix: Matrix = {
      values: this.#values,
      dimensions: this.dimensions,
      numRows: this.#entries.length,
      lengths: this.#lengths,
    };
    const isWanted =
      filter.length === 0 ? undefined : (row: number): boolean => matches(this.#entries[row]?.document ?? {}, filter);
    return vectors.map((vector) => {
      if (vector.length !== this.dimensions) throw vectorLengthMismatch(vector.length, this.dimensions);
      return nearest(matrix, vector, { k, metric, isWanted }).map(({ row, score }) => this.#hit(row, score));
    });
  }

  #hit(row: number, score: number): Hit {
    const entry = this.#entries[row];
    return { id: entry?.id ?? "", score, document: JSON.stringify(entry?.document ?? {}) };
  }

  #grow(): void {
    const values = new Float32Array(this.#values.length * 2);
    values.set(this.#values);
    const lengths = new Float64Array(this.#lengths.length * 2);
    lengths.set(this.#lengths);
    this.#values = values;
    this.#lengths = lengths;
  }
}

function lineOf({ id, vector, document, digest }: Row): string {
  const bytes = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString("base64");
  return `${JSON.stringify({ id, digest, document, vector: bytes })}\n`;
}

function parseLine(line: string, dimensions: number): Row | undefined {
  try {
    const { id, digest, document, vector } = JSON.parse(line) as Record<keyof Row, unknown>;
    const values = new Float32Array(Uint8Array.from(Buffer.from(String(vector), "base64")).buffer);
    const isRow = typeof id === "string" && typeof digest === "string" && typeof document === "object";
    return isRow && values.length === dimensions
      ? { id, digest, document: document as DocumentObject, vector: values }
      : undefined;
  } catch {
    return undefined;
  }
}

export function vectorLengthMismatch(got: number, expected: number): ServerError {
  return invalidArgument(`the embedding has ${got} numbers, those of the collection have ${expected}`);
}

export function dimensionMismatch(name: string, got: number, wanted: number): ServerError {
  const text = `collection '${name}' is there with vectors of ${got} numbers, this encoder gives ${wanted}; choose another name`;
  return invalidArgument(text);
}
