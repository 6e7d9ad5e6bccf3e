/**
 * Unpacks a tar archive (POSIX.1-2017, pax) into an empty folder. Refuses links, devices, escaping or duplicate names,
 * and decompression bombs. After a refusal the caller removes the folder.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { freeBytes } from "@nereid/server/files/disk-space";
import { ToolError } from "@nereid/server/files/tool-error";
import { MAX_OBJECTS, pathProblem } from "../object-path.ts";
import { ByteSource } from "./byte-source.ts";
import { parsePaxRecords, parseTarHeader, TAR_BLOCK_BYTES, type TarHeader } from "./tar-header.ts";

export interface UnpackLimits {
  /** Total bytes of all files. */
  readonly maxBytes: number;
  readonly maxEntries: number;
}

/** Maximum expansion beyond a gigabyte: weights hardly compress, so more is meant to fill disks. */
const MAX_GROWTH = 200;
const ALWAYS_ALLOWED_BYTES = 2 ** 30;
/** Maximum bytes of a long name or attribute record. */
const MAX_ATTRIBUTE_BYTES = 64 * 1024;
/** Tar programs pad the end to a record of whole tape blocks. */
const MAX_TRAILING_BYTES = 16 << 20;
const READ_BYTES = 1 << 20;
const REFUSED_TYPES: ReadonlyMap<string, string> = new Map([
  ["1", "a link"],
  ["2", "a link"],
  ["3", "a device"],
  ["4", "a device"],
  ["6", "a pipe"],
  ["S", "a file with holes"],
]);

/** Limits for unpacking an archive of this length into this folder. */
export async function unpackLimits(archiveBytes: number, folder: string): Promise<UnpackLimits> {
  const grown = Math.max(ALWAYS_ALLOWED_BYTES, archiveBytes * MAX_GROWTH);
  return { maxBytes: Math.min(grown, await freeBytes(folder)), maxEntries: MAX_OBJECTS };
}

/** Path to SHA-256 of each file; an empty string for a folder. @throws ToolError */
export async function unpackTar(
  archive: string,
  isCompressed: boolean,
  folder: string,
  limits: UnpackLimits,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const file = createReadStream(archive, { highWaterMark: READ_BYTES, signal });
  const bytes = isCompressed ? pipeline(file, createGunzip({ chunkSize: READ_BYTES }), () => undefined) : file;
  try {
    return await new Unpacking(bytes as unknown as AsyncIterable<Uint8Array>, folder, limits).run();
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error instanceof ToolError) throw error;
    throw new ToolError(`The archive cannot be unpacked: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  } finally {
    if (bytes instanceof Readable) bytes.destroy();
    file.destroy();
  }
}

class Unpacking {
  readonly #source: ByteSource;
  readonly #folder: string;
  readonly #limits: UnpackLimits;
  readonly #found = new Map<string, string>();
  #writtenBytes = 0;
  #numEntries = 0;
  /** From attributes before the next entry. */
  #nextName: string | undefined;
  #nextBytes: number | undefined;

  constructor(bytes: AsyncIterable<Uint8Array>, folder: string, limits: UnpackLimits) {
    this.#source = new ByteSource(bytes);
    this.#folder = folder;
    this.#limits = limits;
  }

  async run(): Promise<ReadonlyMap<string, string>> {
    for (;;) {
      const at = this.#source.position;
      const block = await this.#source.take(TAR_BLOCK_BYTES);
      if (block === undefined) throw new ToolError("The archive has no end: it was cut off");
      const header = parseTarHeader(block, at);
      if (header === undefined) {
        await this.#rest();
        return this.#found;
      }
      this.#numEntries += 1;
      if (this.#numEntries > this.#limits.maxEntries) {
        throw new ToolError(`The archive has more than ${this.#limits.maxEntries} entries`);
      }
      await this.#entry(header);
    }
  }

  async #entry(header: TarHeader): Promise<void> {
    const { type } = header;
    if (type === "x" || type === "L") return this.#attributes(header);
    if (type === "g") return this.#skipContent(expectAttribute(header));
    const name = (this.#nextName ?? header.name).replace(/^(?:\.\/)+/, "").replace(/\/+$/, "");
    const bytes = this.#nextBytes ?? header.bytes;
    this.#nextName = undefined;
    this.#nextBytes = undefined;
    if (type !== "0" && type !== "5") {
      throw new ToolError(`The archive's entry '${name}' is ${REFUSED_TYPES.get(type) ?? `of type '${type}'`}`, {
        fix: "Pack files and folders only; tar's option --dereference puts files in the place of links",
      });
    }
    if (name === "" || name === ".") return this.#skipContent(bytes);
    const problem = pathProblem(name);
    if (problem !== undefined) throw new ToolError(`The archive's name ${JSON.stringify(name)} is refused: ${problem}`);
    if (type === "5") {
      await mkdir(join(this.#folder, name), { recursive: true });
      if (!this.#found.has(name)) this.#found.set(name, "");
      return this.#skipContent(bytes);
    }
    if (this.#found.has(name)) throw new ToolError(`The archive has '${name}' twice`);
    this.#found.set(name, await this.#file(name, bytes));
  }

  async #file(name: string, bytes: number): Promise<string> {
    this.#writtenBytes += bytes;
    if (!(this.#writtenBytes <= this.#limits.maxBytes)) {
      throw new ToolError(`The archive unpacks to more than ${this.#limits.maxBytes} bytes, which is refused`);
    }
    const path = join(this.#folder, name);
    await mkdir(dirname(path), { recursive: true });
    const file = await open(path, "wx");
    try {
      return await this.#copy(file, bytes);
    } finally {
      await file.close();
    }
  }

  async #copy(file: FileHandle, bytes: number): Promise<string> {
    const hash = createHash("sha256");
    for (let missing = bytes; missing > 0; ) {
      const part = await this.#source.some(missing);
      if (part === undefined) throw new ToolError("The archive ends in the middle of a file: it was cut off");
      await file.writeFile(part);
      hash.update(part);
      missing -= part.length;
    }
    await this.#skip(padding(bytes));
    return hash.digest("hex");
  }

  async #attributes(header: TarHeader): Promise<void> {
    const content = (await this.#source.take(expectAttribute(header))) ?? new Uint8Array(0);
    await this.#skip(padding(header.bytes));
    if (header.type === "L") {
      this.#nextName = Buffer.from(content).toString("utf8").replace(/\0+$/, "");
      return;
    }
    const records = parsePaxRecords(content);
    this.#nextName = records.get("path") ?? this.#nextName;
    const size = records.get("size");
    if (size === undefined) return;
    this.#nextBytes = Number(size);
    if (!Number.isSafeInteger(this.#nextBytes) || this.#nextBytes < 0) {
      throw new ToolError(`The archive gives an entry the length '${size}'`);
    }
  }

  /** Read to the end: only there does the decompressor verify its checksum. */
  async #rest(): Promise<void> {
    for (let left = MAX_TRAILING_BYTES; left > 0; ) {
      const part = await this.#source.some(left);
      if (part === undefined) return;
      left -= part.length;
    }
    throw new ToolError(`The archive goes on for more than ${MAX_TRAILING_BYTES} bytes after its end`);
  }

  #skipContent(bytes: number): Promise<void> {
    return this.#skip(bytes + padding(bytes));
  }

  async #skip(bytes: number): Promise<void> {
    for (let missing = bytes; missing > 0; ) {
      const part = await this.#source.some(missing);
      if (part === undefined) throw new ToolError("The archive ends in the middle of an entry: it was cut off");
      missing -= part.length;
    }
  }
}

function expectAttribute({ bytes }: TarHeader): number {
  if (bytes <= MAX_ATTRIBUTE_BYTES) return bytes;
  throw new ToolError(`The archive has an attribute of ${bytes} bytes, expected at most ${MAX_ATTRIBUTE_BYTES}`);
}

/** Contents are padded to whole blocks. */
function padding(bytes: number): number {
  return (TAR_BLOCK_BYTES - (bytes % TAR_BLOCK_BYTES)) % TAR_BLOCK_BYTES;
}
