/**
 * One header of a tar archive, and pax records: ustar and pax (POSIX.1-2017, pax) with GNU's long names and base-256
 * numbers (GNU tar manual, "Basic Tar Format"). Untrusted bytes: everything is checked. Pure.
 */

export const TAR_BLOCK_BYTES = 512;

/** Entries that are unpacked. */
export type TarKind = "file" | "folder" | "symlink" | "hardlink";
/** Entries that describe the next entry, or all that follow. */
export type TarNote = "long name" | "long link" | "pax" | "global pax";

export interface TarHeader {
  readonly kind: TarKind | TarNote;
  readonly name: string;
  /** Target of a link. */
  readonly target: string;
  readonly byteLength: number;
  /** Permission bits. */
  readonly mode: number;
}

const KINDS: ReadonlyMap<string, TarKind | TarNote> = new Map<string, TarKind | TarNote>([
  ["\0", "file"],
  ["0", "file"],
  ["7", "file"],
  ["1", "hardlink"],
  ["2", "symlink"],
  ["5", "folder"],
  ["L", "long name"],
  ["K", "long link"],
  ["x", "pax"],
  ["g", "global pax"],
]);
const REFUSED_KINDS: ReadonlyMap<string, string> = new Map([
  ["3", "a device"],
  ["4", "a device"],
  ["6", "a pipe"],
  ["S", "a file with holes"],
]);

/** Undefined: a block of zeros, which ends the archive. @throws RangeError naming the place in the archive, or the entry */
export function parseTarHeader(block: Uint8Array, at: number): TarHeader | undefined {
  if (block.every((byte) => byte === 0)) return undefined;
  const where = `at byte ${at} of the archive`;
  const stored = octal(block.subarray(148, 156), `checksum ${where}`);
  if (stored !== checksumOf(block)) throw new RangeError(`what is ${where} is no tar header: its checksum is wrong`);
  const prefix = isUstar(block) ? text(block.subarray(345, 500)) : "";
  const own = text(block.subarray(0, 100));
  const name = prefix === "" ? own : `${prefix}/${own}`;
  return {
    kind: kindOf(block[156] ?? 0, name),
    name,
    target: text(block.subarray(157, 257)),
    byteLength: size(block.subarray(124, 136), where),
    mode: octal(block.subarray(100, 108), `mode ${where}`) & 0o777,
  };
}

function kindOf(code: number, name: string): TarKind | TarNote {
  const flag = String.fromCharCode(code);
  const kind = KINDS.get(flag);
  if (kind !== undefined) return kind;
  throw refusedEntry(name, REFUSED_KINDS.get(flag) ?? `of type '${flag}'`);
}

function refusedEntry(name: string, what: string): RangeError {
  return new RangeError(
    `the archive's entry '${name.replace(/\/+$/, "")}' is ${what}: only files, folders and links are unpacked`,
  );
}

/**
 * POSIX's magic is "ustar" and NUL. GNU's is "ustar" and two blanks; its bytes from 345 on hold times (`--incremental`)
 * and the map of a sparse file, not a prefix of the name (GNU tar manual, "Basic Tar Format").
 */
function isUstar(block: Uint8Array): boolean {
  return text(block.subarray(257, 262)) === "ustar" && block[262] === 0;
}

/** Overrides of the next entry by pax records; other records are ignored. */
export interface PaxNote {
  readonly name?: string;
  readonly target?: string;
  readonly byteLength?: number;
}

/** @throws RangeError for records that cannot be read, and for those of a sparse file */
export function parsePaxNote(content: Uint8Array): PaxNote {
  const records = parsePaxRecords(content);
  const [name, target, size] = [records.get("path"), records.get("linkpath"), records.get("size")];
  // PAX formats 0.0 to 1.0 of sparse files (GNU tar manual, "Storing Sparse Files").
  if ([...records.keys()].some((key) => key.startsWith("GNU.sparse."))) {
    throw refusedEntry(records.get("GNU.sparse.name") ?? name ?? "", "a file with holes");
  }
  if (size !== undefined && !(/^[0-9]+$/.test(size) && Number.isSafeInteger(Number(size)))) {
    throw new RangeError(`the archive gives an entry the length '${size}'`);
  }
  return {
    ...(name === undefined ? {} : { name }),
    ...(target === undefined ? {} : { target }),
    ...(size === undefined ? {} : { byteLength: Number(size) }),
  };
}

/** Records "<length> <key>=<value>\n" (POSIX.1-2017, pax, "pax Extended Header"). */
function parsePaxRecords(content: Uint8Array): ReadonlyMap<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < content.length; ) {
    const blank = content.indexOf(0x20, at);
    const length = blank < 0 ? Number.NaN : Number(Buffer.from(content.subarray(at, blank)).toString("latin1"));
    const record = Buffer.from(content.subarray(blank + 1, at + length - 1)).toString("utf8");
    const equals = record.indexOf("=");
    if (!Number.isInteger(length) || length <= blank - at || at + length > content.length || equals < 1) {
      throw new RangeError("the archive has extended attributes that cannot be read");
    }
    records.set(record.slice(0, equals), record.slice(equals + 1));
    at += length;
  }
  return records;
}

/** Sum of all bytes, with the checksum field read as blanks. */
function checksumOf(block: Uint8Array): number {
  let sum = 0;
  for (let i = 0; i < block.length; i += 1) sum += i >= 148 && i < 156 ? 0x20 : (block[i] ?? 0);
  return sum;
}

/** Octal digits, or a base-256 number when the first bit is set (GNU tar manual, "Extensions to tar header"). */
function size(field: Uint8Array, where: string): number {
  if (((field[0] ?? 0) & 0x80) === 0) return octal(field, `length ${where}`);
  let value = 0n;
  for (const [i, byte] of field.entries()) value = (value << 8n) | BigInt(i === 0 ? byte & 0x7f : byte);
  if (value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
  throw new RangeError(`the length ${where} is ${value}`);
}

function octal(field: Uint8Array, what: string): number {
  const digits = text(field).trim();
  if (/^[0-7]*$/.test(digits)) return Number.parseInt(digits || "0", 8);
  throw new RangeError(`the ${what} is '${digits}', expected octal digits`);
}

/** Up to the first NUL. */
export function text(field: Uint8Array): string {
  const end = field.indexOf(0);
  return Buffer.from(end < 0 ? field : field.subarray(0, end)).toString("utf8");
}
