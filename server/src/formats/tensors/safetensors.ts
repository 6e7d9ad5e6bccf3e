/**
 * Opens the safetensors files of a model folder, single or sharded with an index, and reads ranges of tensors. Source:
 * safetensors README, "Format", and transformers' `model.safetensors.index.json`.
 */
import { type FileHandle, open, readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { readFully } from "./read-fully.ts";
import {
  parseHeaderLength,
  parseSafetensorsHeader,
  SAFETENSORS_PREFIX_BYTES,
  type SafetensorsRange,
} from "./safetensors-header.ts";

export interface Safetensors {
  readonly tensors: ReadonlyMap<string, SafetensorsRange>;
  /** Fills `into` from the bytes of a tensor that begin at `byteOffset` within it. */
  read(name: string, into: Uint8Array, byteOffset?: number): Promise<void>;
  close(): Promise<void>;
}

const SINGLE_FILE = "model.safetensors";
const INDEX_FILE = "model.safetensors.index.json";
/** An index has one line per tensor, like a header. */
const MAX_INDEX_BYTES = 100_000_000;
/** The largest models ship fewer than 200 shards. */
const MAX_SHARDS = 4096;

/** @throws Error naming the file and what is wrong with it */
export async function openSafetensors(directory: string): Promise<Safetensors> {
  const weightMap = await readWeightMap(directory);
  const names = weightMap === undefined ? [SINGLE_FILE] : [...new Set(weightMap.values())].sort();
  const files: OpenFile[] = [];
  try {
    for (const name of names) files.push(await openFile(join(directory, name), name));
    return new ShardedTensors(files, collectTensors(files, weightMap));
  } catch (error) {
    await closeAll(files);
    throw error;
  }
}

/** Opens one file with any name. @throws Error naming the file and what is wrong with it */
export async function openSafetensorsFile(path: string): Promise<Safetensors> {
  const file = await openFile(path, basename(path));
  return new ShardedTensors([file], collectTensors([file], undefined));
}

interface OpenFile {
  readonly name: string;
  readonly handle: FileHandle;
  readonly tensors: ReadonlyMap<string, SafetensorsRange>;
}

interface Located {
  readonly file: OpenFile;
  readonly range: SafetensorsRange;
}

class ShardedTensors implements Safetensors {
  readonly tensors: ReadonlyMap<string, SafetensorsRange>;
  readonly #located: ReadonlyMap<string, Located>;
  readonly #files: readonly OpenFile[];

  constructor(files: readonly OpenFile[], located: ReadonlyMap<string, Located>) {
    this.#files = files;
    this.#located = located;
    this.tensors = new Map([...located].map(([name, { range }]) => [name, range]));
  }

  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    const located = this.#located.get(name);
    if (located === undefined) throw new Error(`the model has no tensor "${name}"`);
    const { file, range } = located;
    if (byteOffset < 0 || into.byteLength > range.byteLength - byteOffset) {
      throw new Error(`${file.name}: bytes ${byteOffset} to ${byteOffset + into.byteLength} lie outside "${name}"`);
    }
    await readFully(file.handle, into, range.byteOffset + byteOffset, file.name);
  }

  async close(): Promise<void> {
    await closeAll(this.#files);
  }
}

async function openFile(path: string, name: string): Promise<OpenFile> {
  const handle = await open(path, "r").catch((cause: unknown) => {
    throw new Error(`${path}: expected a safetensors file`, { cause });
  });
  try {
    const { size } = await handle.stat();
    const prefix = new Uint8Array(Math.min(SAFETENSORS_PREFIX_BYTES, size));
    await readFully(handle, prefix, 0, path);
    const header = new Uint8Array(parseHeaderLength(prefix, size, path));
    await readFully(handle, header, SAFETENSORS_PREFIX_BYTES, path);
    return { name, handle, tensors: parseSafetensorsHeader(header, size, path) };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** File name of each tensor; undefined when the folder holds a single file. */
async function readWeightMap(directory: string): Promise<ReadonlyMap<string, string> | undefined> {
  const path = join(directory, INDEX_FILE);
  const size = await stat(path).then(
    (stats) => stats.size,
    () => undefined,
  );
  if (size === undefined) return undefined;
  if (size > MAX_INDEX_BYTES) throw new Error(`${path}: expected at most ${MAX_INDEX_BYTES} bytes, got ${size}`);
  return parseWeightMap(await readFile(path, "utf8"), path);
}

function parseWeightMap(text: string, path: string): ReadonlyMap<string, string> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw new Error(`${path}: expected JSON`, { cause });
  }
  const map = (parsed as { weight_map?: unknown } | null)?.weight_map;
  if (typeof map !== "object" || map === null) throw new Error(`${path}: weight_map: expected an object`);
  const entries = Object.entries(map);
  for (const [name, file] of entries) {
    // A shard lies beside its index: a path could lead anywhere.
    if (typeof file !== "string" || !/^[\w.-]+\.safetensors$/.test(file)) {
      throw new Error(`${path}: weight_map: expected a .safetensors file beside the index for "${name.slice(0, 80)}"`);
    }
  }
  if (new Set(entries.map(([, file]) => file)).size > MAX_SHARDS) {
    throw new Error(`${path}: weight_map: expected at most ${MAX_SHARDS} files`);
  }
  return new Map(entries);
}

function collectTensors(
  files: readonly OpenFile[],
  weightMap: ReadonlyMap<string, string> | undefined,
): ReadonlyMap<string, Located> {
  const located = new Map<string, Located>();
  for (const file of files) {
    for (const [name, range] of file.tensors) {
      if (weightMap !== undefined && weightMap.get(name) !== file.name) continue;
      located.set(name, { file, range });
    }
  }
  for (const [name, file] of weightMap ?? []) {
    if (!located.has(name))
      throw new Error(`${file}: expected tensor "${name.slice(0, 80)}", which ${INDEX_FILE} places there`);
  }
  return located;
}

async function closeAll(files: readonly OpenFile[]): Promise<void> {
  await Promise.all(files.map((file) => file.handle.close()));
}
