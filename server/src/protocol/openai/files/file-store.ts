/**
 * Files of OpenAI's API in one folder: the content of each, and a small JSON file beside it, which is written last and so
 * makes the file exist. Everything is bounded in size and number, and goes when it expires.
 * Source: OpenAI's API reference, "Files"; own design for the folder.
 */
import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomically } from "../../../files/atomic-output.ts";
import { TargetLock } from "../../../files/target-lock.ts";
import { ApiError } from "../../api/api-error.ts";
import { integer, object, optional, required, type Schema, string } from "../../api/schema.ts";
import { nowSeconds } from "../openai-context.ts";

export interface StoredFile {
  readonly id: string;
  /** Name of the API key whose file it is; "" without keys. */
  readonly owner: string;
  readonly bytes: number;
  /** Seconds since 1970. */
  readonly createdAt: number;
  readonly expiresAt?: number | undefined;
  readonly fileName: string;
  readonly purpose: string;
}

const STORED_FILE: Schema<StoredFile> = object<StoredFile>({
  id: required(string()),
  owner: required(string()),
  bytes: required(integer(0)),
  createdAt: required(integer(0)),
  expiresAt: optional(integer(0)),
  fileName: required(string()),
  purpose: required(string()),
});

export interface FileStoreLimits {
  readonly maxFileBytes: number;
  readonly maxTotalBytes: number;
  readonly maxFiles: number;
}

/** OpenAI's limit of one file; the others are this server's. */
export const FILE_LIMITS: FileStoreLimits = {
  maxFileBytes: 512 * 2 ** 20,
  maxTotalBytes: 32 * 2 ** 30,
  maxFiles: 10_000,
};

const SWEEP_MS = 60_000;
const FILE_ID = /^file-[0-9a-f]{32}$/;
const UNFINISHED = ".upload";

export type NewFile = Pick<StoredFile, "owner" | "fileName" | "purpose" | "expiresAt">;

export class FileStore {
  readonly folder: string;
  readonly limits: FileStoreLimits;
  readonly #files = new Map<string, StoredFile>();
  #usedBytes = 0;
  #numUploads = 0;

  private constructor(folder: string, limits: FileStoreLimits) {
    this.folder = folder;
    this.limits = limits;
  }

  /** Makes the folder, or reads what an earlier server left in it. @throws when another server uses it */
  static async open(folder: string, limits: FileStoreLimits = FILE_LIMITS): Promise<FileStore> {
    const store = new FileStore(join(folder, "files"), limits);
    await mkdir(store.folder, { recursive: true, mode: 0o700 });
    await TargetLock.acquire(join(folder, "store"));
    await store.#load();
    setInterval(() => void store.#sweep(), SWEEP_MS).unref();
    return store;
  }

  /** The newest first. */
  list(owner: string): readonly StoredFile[] {
    return [...this.#files.values()].filter((file) => file.owner === owner && !isExpired(file)).reverse();
  }

  find(owner: string, id: string): StoredFile | undefined {
    const file = this.#files.get(id);
    return file?.owner === owner && !isExpired(file) ? file : undefined;
  }

  read({ id }: StoredFile): AsyncIterable<Uint8Array> {
    return createReadStream(this.#pathOf(id));
  }

  /** Makes room for bytes that are about to be written. @throws ApiError */
  grow(numBytes: number): void {
    if (this.#usedBytes + numBytes > this.limits.maxTotalBytes) {
      throw storeFull(`all files together have at most ${this.limits.maxTotalBytes} bytes`);
    }
    this.#usedBytes += numBytes;
  }

  shrink(numBytes: number): void {
    this.#usedBytes -= numBytes;
  }

  /** Writes an upload as it comes. @throws ApiError when it is too large @throws what `content` throws */
  async receive(content: AsyncIterable<Uint8Array>): Promise<Upload> {
    if (this.#files.size + this.#numUploads >= this.limits.maxFiles) {
      throw storeFull(`it holds at most ${this.limits.maxFiles} files`);
    }
    this.#numUploads += 1;
    const upload = new Upload(this, join(this.folder, `${randomUUID()}${UNFINISHED}`), () => {
      this.#numUploads -= 1;
    });
    try {
      await upload.write(content);
    } catch (error) {
      await upload.discard();
      throw error;
    }
    return upload;
  }

  /** Takes over a finished file, whose bytes `grow` has counted. */
  async adopt(path: string, bytes: number, facts: NewFile): Promise<StoredFile> {
    const id = `file-${randomUUID().replaceAll("-", "")}`;
    const file: StoredFile = { ...facts, id, bytes, createdAt: nowSeconds() };
    await rename(path, this.#pathOf(id));
    await writeFileAtomically(this.#factsOf(id), JSON.stringify(file));
    this.#files.set(id, file);
    return file;
  }

  async delete({ id, bytes }: StoredFile): Promise<void> {
    if (!this.#files.delete(id)) return;
    this.#usedBytes -= bytes;
    await rm(this.#factsOf(id), { force: true });
    await rm(this.#pathOf(id), { force: true });
  }

  #pathOf(id: string): string {
    return join(this.folder, id);
  }

  #factsOf(id: string): string {
    return join(this.folder, `${id}.json`);
  }

  async #load(): Promise<void> {
    const names = new Set(await readdir(this.folder));
    const files: StoredFile[] = [];
    for (const name of names) {
      if (FILE_ID.test(name) && names.has(`${name}.json`)) files.push(await this.#readFacts(name));
      else if (name.endsWith(UNFINISHED) || FILE_ID.test(name)) await rm(join(this.folder, name), { force: true });
    }
    files.sort((a, b) => a.createdAt - b.createdAt);
    for (const file of files) this.#files.set(file.id, file);
    this.#usedBytes = files.reduce((sum, { bytes }) => sum + bytes, 0);
    await this.#sweep();
  }

  async #readFacts(id: string): Promise<StoredFile> {
    const facts = STORED_FILE.read(JSON.parse(await readFile(this.#factsOf(id), "utf8")), "");
    return { ...facts, id, bytes: (await stat(this.#pathOf(id))).size };
  }

  async #sweep(): Promise<void> {
    for (const file of [...this.#files.values()].filter(isExpired)) await this.delete(file);
  }
}

/** A file that is written, and belongs to nobody yet. */
export class Upload {
  readonly #store: FileStore;
  readonly #path: string;
  readonly #onEnd: () => void;
  #bytes = 0;

  constructor(store: FileStore, path: string, onEnd: () => void) {
    this.#store = store;
    this.#path = path;
    this.#onEnd = onEnd;
  }

  async write(content: AsyncIterable<Uint8Array>): Promise<void> {
    const file = await open(this.#path, "wx", 0o600);
    try {
      for await (const piece of content) await this.#append(file, piece);
      await file.sync();
    } finally {
      await file.close();
    }
  }

  async commit(facts: NewFile): Promise<StoredFile> {
    const file = await this.#store.adopt(this.#path, this.#bytes, facts);
    this.#onEnd();
    return file;
  }

  async discard(): Promise<void> {
    this.#store.shrink(this.#bytes);
    this.#onEnd();
    await rm(this.#path, { force: true });
  }

  async #append(file: FileHandle, piece: Uint8Array): Promise<void> {
    const { maxFileBytes } = this.#store.limits;
    if (this.#bytes + piece.length > maxFileBytes) throw tooLarge(maxFileBytes);
    this.#store.grow(piece.length);
    this.#bytes += piece.length;
    await file.writeFile(piece);
  }
}

function isExpired({ expiresAt }: StoredFile): boolean {
  return expiresAt !== undefined && expiresAt <= nowSeconds();
}

function tooLarge(maxBytes: number): ApiError {
  const message = `The file is too large: expected at most ${maxBytes} bytes.`;
  return new ApiError({ status: 413, type: "invalid_request_error", code: "file_too_large", param: "file", message });
}

function storeFull(why: string): ApiError {
  const message = `The store of files is full: ${why}. Delete some.`;
  return new ApiError({
    status: 400,
    type: "invalid_request_error",
    code: "storage_limit_exceeded",
    param: null,
    message,
  });
}
