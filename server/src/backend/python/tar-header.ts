/** Headers of tar archives (ustar, GNU and pax long names), from their 512 bytes. Pure: reads no file. */

export const BLOCK_BYTES = 512;

export type TarKind = "file" | "folder" | "symlink" | "hardlink" | "long name" | "long link" | "pax" | "global pax";

export interface TarHeader {
  readonly kind: TarKind;
  readonly name: string;
  /** Where a link leads. */
  readonly target: string;
  readonly byteLength: number;
  readonly mode: number;
}

const KINDS: Readonly<Record<string, TarKind>> = {
  "\0": "file",
  "0": "file",
  "1": "hardlink",
  "2": "symlink",
  "5": "folder",
  "7": "file",
  L: "long name",
  K: "long link",
  x: "pax",
  g: "global pax",
};

/** Undefined for a block of zeros, which ends an archive. @throws RangeError for what is no header, or of an unknown kind */
export function parseTarHeader(block: Buffer): TarHeader | undefined {
  if (block.every((byte) => byte === 0)) return undefined;
  const sum = octal(block, 148, 8);
  if (sum !== checksum(block))
    throw new RangeError("a header has a wrong checksum: this is no tar archive, or a damaged one");
  const flag = String.fromCharCode(block[156] ?? 0);
  const name = text(block, 0, 100);
  const kind = KINDS[flag];
  if (kind === undefined)
    throw new RangeError(`entry '${name}' is of the kind '${flag}': only files, folders and links are unpacked`);
  const prefix = text(block, 257, 5) === "ustar" && block[262] === 0 ? text(block, 345, 155) : "";
  return {
    kind,
    name: prefix === "" ? name : `${prefix}/${name}`,
    target: text(block, 157, 100),
    byteLength: size(block),
    mode: octal(block, 100, 8) & 0o777,
  };
}

/** The records of a pax header: "<length> <key>=<value>\n" each. @throws RangeError where they are not */
export function parsePaxRecords(data: Buffer): ReadonlyMap<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < data.length; ) {
    const blank = data.indexOf(0x20, at);
    const length = Number(data.toString("latin1", at, blank));
    const record = data.toString("utf8", blank + 1, at + length - 1);
    const equals = record.indexOf("=");
    if (blank < 0 || !Number.isSafeInteger(length) || length <= 0 || at + length > data.length || equals < 0) {
      throw new RangeError("a pax header is damaged");
    }
    records.set(record.slice(0, equals), record.slice(equals + 1));
    at += length;
  }
  return records;
}

function checksum(block: Buffer): number {
  let sum = 8 * 0x20; // the field itself counts as blanks
  for (const [at, byte] of block.entries()) if (at < 148 || at >= 156) sum += byte;
  return sum;
}

/** Octal digits, or for 8 GiB and more a binary number marked by the highest bit. */
function size(block: Buffer): number {
  if (((block[124] ?? 0) & 0x80) === 0) return octal(block, 124, 12);
  const value = Number(block.readBigUInt64BE(128));
  if (!Number.isSafeInteger(value)) throw new RangeError("an entry's size is out of range");
  return value;
}

function octal(block: Buffer, at: number, length: number): number {
  const digits = text(block, at, length).trim();
  const value = digits === "" ? 0 : Number.parseInt(digits, 8);
  if (!/^[0-7]*$/.test(digits) || !Number.isSafeInteger(value)) throw new RangeError(`'${digits}' is no octal number`);
  return value;
}

function text(block: Buffer, at: number, length: number): string {
  const end = block.indexOf(0, at);
  return block.toString("utf8", at, end < 0 || end > at + length ? at + length : end);
}
