/**
 * Reads a tar archive entry by entry, with the names and lengths that notes before an entry give it (POSIX.1-2017, pax).
 * The archive is not trusted: names that lead out, devices, pipes, sparse files and archives that are cut off or go
 * beyond the limits are refused. Writes nothing.
 */
import { normalize } from "node:path";
import { ByteSource } from "./byte-source.ts";
import {
  type PaxNote,
  parsePaxNote,
  parseTarHeader,
  TAR_BLOCK_BYTES,
  type TarHeader,
  type TarKind,
  text,
} from "./tar-header.ts";

export interface TarLimits {
  /** Entries and notes. */
  readonly maxEntries: number;
  /** Total bytes of all files. */
  readonly maxBytes: number;
}

export interface TarEntry {
  readonly kind: TarKind;
  /** Normalized, without a slash at either end; "." is the root of the archive, which only a folder may be. */
  readonly name: string;
  /** Target of a link as written: not checked. */
  readonly target: string;
  readonly byteLength: number;
  readonly mode: number;
}

/** Bytes of one long name or of the pax records of one entry. */
const MAX_NOTE_BYTES: number = 1024 * 1024;
/** Tar programs pad the end to a record of whole tape blocks. */
const MAX_TRAILING_BYTES: number = 16 * 1024 * 1024;

export class TarReader {
  readonly #source: ByteSource;
  readonly #limits: TarLimits;
  #numEntries = 0;
  #numBytes = 0;
  /** Bytes of the current entry that were not read, and the padding behind them. */
  #contentLeft = 0;
  #paddingLeft = 0;
  #next: PaxNote = {};

  constructor(chunks: AsyncIterable<Uint8Array>, limits: TarLimits) {
    this.#source = new ByteSource(chunks);
    this.#limits = limits;
  }

  /** The next entry, behind what was not read of the one before; undefined at the end. @throws RangeError */
  async next(): Promise<TarEntry | undefined> {
    for (;;) {
      await this.#skip(this.#contentLeft + this.#paddingLeft);
      const header = await this.#header();
      if (header === undefined) return undefined;
      this.#expect(header.byteLength);
      const { kind } = header;
      if (kind === "file" || kind === "folder" || kind === "symlink" || kind === "hardlink") {
        return this.#entry({ ...header, kind });
      }
      await this.#note(header);
    }
  }

  /** Content of the current entry. @throws RangeError when the archive is cut off */
  async *content(): AsyncGenerator<Uint8Array> {
    while (this.#contentLeft > 0) {
      const part = await this.#source.some(this.#contentLeft);
      if (part === undefined) throw cutOff("in the middle of an entry");
      this.#contentLeft -= part.length;
      yield part;
    }
  }

  async #header(): Promise<TarHeader | undefined> {
    const at = this.#source.position;
    const block = await this.#source.take(TAR_BLOCK_BYTES);
    if (block === undefined) throw cutOff("without its end");
    const header = parseTarHeader(block, at);
    if (header === undefined) {
      await this.#rest();
      return undefined;
    }
    this.#numEntries += 1;
    const { maxEntries } = this.#limits;
    if (this.#numEntries > maxEntries) throw new RangeError(`the archive has more than ${maxEntries} entries`);
    return header;
  }

  #expect(byteLength: number): void {
    this.#contentLeft = byteLength;
    this.#paddingLeft = -byteLength & (TAR_BLOCK_BYTES - 1);
  }

  #entry(written: TarHeader & { readonly kind: TarKind }): TarEntry {
    const { kind, mode, target, name, byteLength } = { ...written, ...this.#next };
    this.#next = {};
    this.#expect(byteLength);
    const inside = insideName(name, `entry '${name}'`);
    if (inside === "." && kind !== "folder") throw new RangeError(`the archive has a ${kind} without a name`);
    if (kind === "file") this.#numBytes += byteLength;
    const { maxBytes } = this.#limits;
    if (!(this.#numBytes <= maxBytes)) throw new RangeError(`the archive unpacks to more than ${maxBytes} bytes`);
    return { kind, name: inside, target, byteLength, mode };
  }

  /** Notes of the whole archive say nothing that is used here. */
  async #note({ kind, byteLength }: TarHeader): Promise<void> {
    if (byteLength > MAX_NOTE_BYTES) {
      throw new RangeError(`the archive has an attribute of ${byteLength} bytes, expected at most ${MAX_NOTE_BYTES}`);
    }
    const parts: Uint8Array[] = [];
    for await (const part of this.content()) parts.push(part);
    const content = Buffer.concat(parts);
    if (kind === "long name") this.#next = { ...this.#next, name: text(content) };
    else if (kind === "long link") this.#next = { ...this.#next, target: text(content) };
    else if (kind === "pax") this.#next = { ...this.#next, ...parsePaxNote(content) };
  }

  /** Read to the end: only there does a decompressor verify its checksum. */
  async #rest(): Promise<void> {
    for (let left = MAX_TRAILING_BYTES; left > 0; ) {
      const part = await this.#source.some(left);
      if (part === undefined) return;
      left -= part.length;
    }
    throw new RangeError(`the archive goes on for more than ${MAX_TRAILING_BYTES} bytes after its end`);
  }

  async #skip(numBytes: number): Promise<void> {
    for (let left = numBytes; left > 0; ) {
      const part = await this.#source.some(left);
      if (part === undefined) throw cutOff("in the middle of an entry");
      left -= part.length;
    }
  }
}

/** A path that stays below its folder (CWE-22), normalized. @throws RangeError that begins with `what` */
export function insideName(name: string, what: string): string {
  const inside = normalize(name).replace(/(?<=[^/])\/+$/, "");
  if (!name.includes("\0") && !inside.startsWith("/") && inside !== ".." && !inside.startsWith("../")) return inside;
  throw new RangeError(`${what} leads out of the archive`);
}

function cutOff(where: string): RangeError {
  return new RangeError(`the archive ends ${where}: it was cut off`);
}
