/**
 * Opens a GGUF file, or all parts of a split one, and reads ranges of its tensors. Source: ggml/docs/gguf.md. It knows
 * no model.
 */
import { type FileHandle, open, readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { readFully } from "../tensors/read-fully.ts";
import { expectTensorRange, type TensorSource } from "../tensors/tensor-source.ts";
import { PrefixTooShort } from "./cursor.ts";
import {
  type GgufHeader,
  type GgufOutline,
  type GgufTensor,
  type GgufValue,
  parseGgufHeader,
  parseGgufOutline,
} from "./header.ts";

export interface GgufFile extends TensorSource {
  /** Metadata of the first part, when the model is split. */
  readonly metadata: ReadonlyMap<string, GgufValue>;
  /** By the tensor names in the file. */
  readonly tensors: ReadonlyMap<string, GgufTensor>;
}

const FIRST_READ_BYTES: number = 1 << 20;
/** Vocabularies and merges take some 10 MB. */
const MAX_HEADER_BYTES: number = 1 << 28;
const MAX_SPLITS = 4096;
/** Missing parts that a message names. */
const MAX_NAMED = 8;

/** @throws Error naming the file and what is wrong with it */
export async function openGguf(path: string): Promise<GgufFile> {
  const files: OpenFile[] = [];
  try {
    const first = await openFile(path);
    files.push(first);
    for (const sibling of await splitSiblings(path, first.header)) files.push(await openFile(sibling));
    expectOneModel(files.map((file) => ({ path: file.path, ...file.header, numTensors: file.header.tensors.size })));
    return new OpenGguf(first.header.metadata, files, locate(files));
  } catch (error) {
    await closeAll(files);
    throw error;
  }
}

/** Outline of a model whose tensor types need not be known, and the bytes of all its files. */
export interface GgufSummary extends GgufOutline {
  readonly fileBytes: number;
}

/** Reads the headers alone. @throws Error naming the file and what is wrong with it */
export async function readGgufSummary(path: string): Promise<GgufSummary> {
  const first = await readOutline(path);
  const paths = [path, ...(await splitSiblings(path, first))];
  const parts = [first];
  for (const sibling of paths.slice(1)) parts.push(await readOutline(sibling));
  expectOneModel(
    parts.map(({ metadata, tensors }, i) => ({ path: paths[i] ?? path, metadata, numTensors: tensors.length })),
  );
  return {
    ...first,
    tensors: parts.flatMap(({ tensors }) => tensors),
    fileBytes: parts.reduce((sum, { fileBytes }) => sum + fileBytes, 0),
  };
}

async function readOutline(path: string): Promise<GgufSummary> {
  const handle = await openHandle(path);
  try {
    const { size } = await handle.stat();
    return { ...(await readHeader(handle, path, parseGgufOutline)), fileBytes: size };
  } finally {
    await handle.close();
  }
}

interface OpenFile {
  readonly path: string;
  readonly handle: FileHandle;
  readonly header: GgufHeader;
}

class OpenGguf implements GgufFile {
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: ReadonlyMap<string, GgufTensor>;
  readonly #files: readonly OpenFile[];
  readonly #fileOf: ReadonlyMap<string, OpenFile>;

  constructor(
    metadata: ReadonlyMap<string, GgufValue>,
    files: readonly OpenFile[],
    fileOf: ReadonlyMap<string, OpenFile>,
  ) {
    this.metadata = metadata;
    this.tensors = new Map(files.flatMap(({ header }) => [...header.tensors]));
    this.#files = files;
    this.#fileOf = fileOf;
  }

  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    expectTensorRange(this.tensors, name, into.byteLength, byteOffset);
    const file = this.#fileOf.get(name);
    const tensor = file?.header.tensors.get(name);
    if (file === undefined || tensor === undefined) throw new Error(`the model has no tensor "${name}"`);
    await readFully(file.handle, into, tensor.byteOffset + byteOffset, file.path);
  }

  async close(): Promise<void> {
    await closeAll(this.#files);
  }
}

async function openFile(path: string): Promise<OpenFile> {
  const handle = await openHandle(path);
  try {
    return { path, handle, header: await readHeader(handle, path, parseGgufHeader) };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function openHandle(path: string): Promise<FileHandle> {
  return open(path, "r").catch((cause: unknown) => {
    throw new Error(`${path}: expected a GGUF file`, { cause });
  });
}

/** The header states no length of its own, so read more of the file until parsing succeeds. */
async function readHeader<T>(
  handle: FileHandle,
  path: string,
  parse: (bytes: Uint8Array, fileBytes: number, file: string) => T,
): Promise<T> {
  const { size } = await handle.stat();
  const largest = Math.min(size, MAX_HEADER_BYTES);
  for (let length = FIRST_READ_BYTES; ; ) {
    const prefix = new Uint8Array(Math.min(length, largest));
    await readFully(handle, prefix, 0, path);
    try {
      return parse(prefix, size, path);
    } catch (error) {
      if (!(error instanceof PrefixTooShort)) throw error;
      if (prefix.byteLength === largest) {
        throw new Error(`${path}: expected a header of at most ${MAX_HEADER_BYTES} bytes`, { cause: error });
      }
      length = Math.max(4 * prefix.byteLength, error.neededBytes);
    }
  }
}

/**
 * The other parts of a split model, numbered from 1 in their names (gguf.md, "Shards").
 * @throws Error naming those that are missing
 */
async function splitSiblings(path: string, { metadata }: Pick<GgufHeader, "metadata">): Promise<readonly string[]> {
  const count = metadata.get("split.count") ?? 1;
  if (count === 0 || count === 1) return [];
  if (typeof count !== "number" || count > MAX_SPLITS) {
    throw new Error(`${path}: split.count: expected at most ${MAX_SPLITS}, got ${String(count).slice(0, 80)}`);
  }
  const suffix = `-of-${String(count).padStart(5, "0")}.gguf`;
  const name = basename(path);
  if (!name.endsWith(`-00001${suffix}`)) {
    throw new Error(`${path}: expected the first of ${count} files, named *-00001${suffix}`);
  }
  const stem = name.slice(0, -`-00001${suffix}`.length);
  const numbers = Array.from({ length: count - 1 }, (_, i) => String(i + 2).padStart(5, "0"));
  const names = numbers.map((number) => `${stem}-${number}${suffix}`);
  const found = new Set(await readdir(dirname(path)));
  const missing = names.filter((each) => !found.has(each));
  if (missing.length === 0) return names.map((each) => join(dirname(path), each));
  const more = missing.length > MAX_NAMED ? ` and ${missing.length - MAX_NAMED} more` : "";
  throw new Error(
    `${path}: expected ${count} files, missing ${missing.slice(0, MAX_NAMED).join(", ")}${more}: get them from the same place`,
  );
}

interface Part {
  readonly path: string;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly numTensors: number;
}

/** Parts say their number, from 0, and the tensors of all (llama.cpp, gguf-split). @throws Error naming another's part */
function expectOneModel(parts: readonly Part[]): void {
  const [first] = parts;
  if (first === undefined || parts.length < 2) return;
  const expectAt = ({ path, metadata }: Part, key: string, expected: GgufValue | undefined): void => {
    const got = metadata.get(key);
    if (got === undefined || expected === undefined || got === expected) return;
    throw new Error(
      `${path}: ${key}: expected ${String(expected)}, got ${String(got).slice(0, 80)}: is it a part of another model?`,
    );
  };
  for (const [i, part] of parts.entries()) {
    for (const key of ["split.count", "split.tensors.count"]) expectAt(part, key, first.metadata.get(key));
    expectAt(part, "split.no", i);
  }
  const numTensors = parts.reduce((sum, part) => sum + part.numTensors, 0);
  expectAt(first, "split.tensors.count", numTensors);
}

function locate(files: readonly OpenFile[]): ReadonlyMap<string, OpenFile> {
  const fileOf = new Map<string, OpenFile>();
  for (const file of files) {
    for (const name of file.header.tensors.keys()) {
      const other = fileOf.get(name);
      if (other !== undefined) throw new Error(`${file.path}: tensor "${name.slice(0, 80)}" is in ${other.path} too`);
      fileOf.set(name, file);
    }
  }
  return fileOf;
}

async function closeAll(files: readonly OpenFile[]): Promise<void> {
  await Promise.all(files.map(({ handle }) => handle.close()));
}
