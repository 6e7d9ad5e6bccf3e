/**
 * Unpacks a tar archive, gzipped or not, into a new folder. The archive is not trusted: nothing is written or linked outside
 * of the folder, only files, folders and links come out, and not more than the limits allow.
 */
import { createReadStream } from "node:fs";
import { link, mkdir, open, realpath, symlink } from "node:fs/promises";
import { dirname, join, normalize, posix } from "node:path";
import { createGunzip } from "node:zlib";
import { BLOCK_BYTES, parsePaxRecords, parseTarHeader, type TarHeader } from "./tar-header.ts";

/** Environments with GPU libraries have some 100,000 files and 15 GB. */
export interface ArchiveLimits {
  readonly maxEntries: number;
  readonly maxBytes: number;
}
export const ARCHIVE_LIMITS: ArchiveLimits = { maxEntries: 1_000_000, maxBytes: 64 * 1024 ** 3 };

/** Names and pax records: what is read at once. */
const MAX_META_BYTES: number = 1024 * 1024;
const GZIP_MAGIC = 0x1f8b;

/** @throws RangeError naming the entry that cannot be unpacked; Error from the file system */
export async function unpackArchive(
  archive: string,
  folder: string,
  limits: ArchiveLimits = ARCHIVE_LIMITS,
): Promise<void> {
  const source = new ByteSource(await openArchive(archive));
  const unpacker = new Unpacker(folder, limits);
  for (;;) {
    const block = await source.take(BLOCK_BYTES);
    const header = block === undefined ? undefined : parseTarHeader(block);
    if (header === undefined) break;
    await unpacker.entry(header, source);
  }
  await unpacker.links();
}

async function openArchive(path: string): Promise<AsyncIterable<Buffer>> {
  const file = await open(path);
  const magic = Buffer.alloc(2);
  await file.read(magic, 0, 2, 0);
  await file.close();
  const stream = createReadStream(path, { highWaterMark: MAX_META_BYTES });
  if (magic.readUInt16BE(0) !== GZIP_MAGIC) return stream as AsyncIterable<Buffer>;
  const unzipped = createGunzip({ chunkSize: MAX_META_BYTES });
  stream.on("error", (error) => unzipped.destroy(error));
  return stream.pipe(unzipped);
}

class Unpacker {
  readonly #folder: string;
  readonly #limits: ArchiveLimits;
  readonly #links: { readonly header: TarHeader; readonly name: string }[] = [];
  #numEntries = 0;
  #numBytes = 0;
  /** What earlier entries say of the next one. */
  #next: { name?: string; target?: string; byteLength?: number } = {};

  constructor(folder: string, limits: ArchiveLimits) {
    this.#folder = folder;
    this.#limits = limits;
  }

  async entry(written: TarHeader, source: ByteSource): Promise<void> {
    if (written.kind === "long name" || written.kind === "long link" || written.kind.endsWith("pax")) {
      await this.#describe(written, source);
      return;
    }
    const header = { ...written, ...this.#next };
    this.#next = {};
    this.#count(header);
    const name = insideName(header.name, `entry '${header.name}'`);
    if (header.kind === "file") await this.#file(header, join(this.#folder, name), source);
    else if (header.kind === "folder") await mkdir(join(this.#folder, name), { recursive: true });
    else this.#links.push({ header, name });
  }

  /** Links come last: so no file is ever written through one. */
  async links(): Promise<void> {
    const root = await realpath(this.#folder);
    for (const { header, name } of this.#links) {
      const what = `link '${header.name}' to '${header.target}'`;
      const path = await this.#realPath(root, name, what);
      if (header.kind === "hardlink") {
        await link(await this.#realPath(root, insideName(header.target, what), what), path);
      } else {
        if (header.target.startsWith("/")) throw new RangeError(`${what} leads out of the archive`);
        insideName(posix.join(posix.dirname(name), header.target), what);
        await symlink(header.target, path);
      }
    }
  }

  /** A path whose folders are folders: through a link, ".." would lead elsewhere than it seems to. */
  async #realPath(root: string, name: string, what: string): Promise<string> {
    const path = join(root, name);
    const parent = dirname(path);
    await mkdir(parent, { recursive: true });
    if ((await realpath(parent)) !== parent) throw new RangeError(`${what} goes through another link`);
    return path;
  }

  async #describe(header: TarHeader, source: ByteSource): Promise<void> {
    if (header.byteLength > MAX_META_BYTES)
      throw new RangeError(`entry '${header.name}' has a header of ${header.byteLength} bytes`);
    const data = await source.exactly(header.byteLength);
    await source.exactly(-header.byteLength & (BLOCK_BYTES - 1));
    const textOf = (): string => data.toString("utf8").replace(/\0.*$/s, "");
    if (header.kind === "long name") this.#next.name = textOf();
    else if (header.kind === "long link") this.#next.target = textOf();
    else if (header.kind === "pax") this.#take(parsePaxRecords(data));
  }

  #take(records: ReadonlyMap<string, string>): void {
    const [name, target, size] = [records.get("path"), records.get("linkpath"), records.get("size")];
    if (name !== undefined) this.#next.name = name;
    if (target !== undefined) this.#next.target = target;
    if (size === undefined) return;
    if (!/^[0-9]{1,15}$/.test(size)) throw new RangeError(`'${size}' is no size of an entry`);
    this.#next.byteLength = Number(size);
  }

  #count({ byteLength }: TarHeader): void {
    this.#numEntries += 1;
    this.#numBytes += byteLength;
    const { maxEntries, maxBytes } = this.#limits;
    if (this.#numEntries > maxEntries) throw new RangeError(`the archive has more than ${maxEntries} entries`);
    if (this.#numBytes > maxBytes) throw new RangeError(`the archive unpacks to more than ${maxBytes} bytes`);
  }

  async #file(header: TarHeader, path: string, source: ByteSource): Promise<void> {
    await mkdir(dirname(path), { recursive: true });
    const file = await open(path, "w", header.mode | 0o600);
    try {
      for (let left = header.byteLength; left > 0; ) {
        const chunk = await source.some(left);
        await file.writeFile(chunk);
        left -= chunk.length;
      }
    } finally {
      await file.close();
    }
    await source.exactly(-header.byteLength & (BLOCK_BYTES - 1));
  }
}

/** A path that stays below the folder. @throws RangeError where it does not */
function insideName(name: string, what: string): string {
  const inside = normalize(name);
  if (name.includes("\0") || inside.startsWith("/") || inside === ".." || inside.startsWith("../")) {
    throw new RangeError(`${what} leads out of the archive`);
  }
  return inside;
}

/** Bytes of a stream in the portions that a reader asks for. */
class ByteSource {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /** Undefined where the stream has ended before. */
  async take(byteLength: number): Promise<Buffer | undefined> {
    if (this.#rest.length === 0 && !(await this.#fill())) return undefined;
    return this.exactly(byteLength);
  }

  /** @throws RangeError when the stream ends earlier */
  async exactly(byteLength: number): Promise<Buffer> {
    while (this.#rest.length < byteLength) if (!(await this.#fill())) throw new RangeError("the archive ends early");
    const taken = this.#rest.subarray(0, byteLength);
    this.#rest = this.#rest.subarray(byteLength);
    return taken;
  }

  /** What is there, at least one byte and at most `maxBytes`. @throws RangeError when the stream has ended */
  async some(maxBytes: number): Promise<Buffer> {
    if (this.#rest.length === 0 && !(await this.#fill())) throw new RangeError("the archive ends early");
    return this.exactly(Math.min(maxBytes, this.#rest.length));
  }

  async #fill(): Promise<boolean> {
    const { value, done } = await this.#chunks.next();
    if (done === true) return false;
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value]);
    return true;
  }
}
