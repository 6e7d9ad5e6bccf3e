/**
 * Parses one 512-byte tar header: ustar and pax (POSIX.1-2017, pax) plus GNU long names. Untrusted bytes: everything is
 * checked. Pure.
 */
import { ToolError } from "@nereid/server/files/tool-error";

export const TAR_BLOCK_BYTES = 512;

export interface TarHeader {
  readonly name: string;
  readonly bytes: number;
  /** Type flag: "0" a file, "5" a folder, "x" and "g" pax attributes, "L" a GNU long name. All others are refused. */
  readonly type: string;
}

/** Undefined: a block of zeros, which ends the archive. @throws ToolError */
export function parseTarHeader(block: Uint8Array, at: number): TarHeader | undefined {
  if (block.every((byte) => byte === 0)) return undefined;
  const where = `at byte ${at} of the archive`;
  const stored = octal(block.subarray(148, 156), `checksum ${where}`);
  if (stored !== checksumOf(block)) throw new ToolError(`What is ${where} is no tar header: its checksum is wrong`);
  const prefix = isUstar(block) ? text(block.subarray(345, 500)) : "";
  const name = text(block.subarray(0, 100));
  const code = block[156] ?? 0;
  return {
    name: prefix === "" ? name : `${prefix}/${name}`,
    bytes: size(block.subarray(124, 136), where),
    type: code === 0 || code === 0x37 ? "0" : String.fromCharCode(code),
  };
}

/**
 * POSIX's magic is "ustar" and NUL. GNU's is "ustar" and two blanks; its bytes from 345 on hold times (`--incremental`)
 * and the map of a sparse file, not a prefix of the name (GNU tar manual, "Basic Tar Format").
 */
function isUstar(block: Uint8Array): boolean {
  return text(block.subarray(257, 262)) === "ustar" && block[262] === 0;
}

/** `path=…` and `size=…` of pax extended attributes; others are ignored. @throws ToolError */
export function parsePaxRecords(content: Uint8Array): ReadonlyMap<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < content.length; ) {
    const blank = content.indexOf(0x20, at);
    const length = blank < 0 ? Number.NaN : Number(Buffer.from(content.subarray(at, blank)).toString("latin1"));
    if (!Number.isInteger(length) || length <= blank - at || at + length > content.length) {
      throw new ToolError("The archive has extended attributes that cannot be read");
    }
    const record = Buffer.from(content.subarray(blank + 1, at + length - 1)).toString("utf8");
    const equals = record.indexOf("=");
    if (equals > 0) records.set(record.slice(0, equals), record.slice(equals + 1));
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

/** Octal digits, or a base-256 number when the first bit is set (GNU extension for large values). */
function size(field: Uint8Array, where: string): number {
  if (((field[0] ?? 0) & 0x80) === 0) return octal(field, `length ${where}`);
  let value = 0n;
  for (const [i, byte] of field.entries()) value = (value << 8n) | BigInt(i === 0 ? byte & 0x7f : byte);
  if (value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
  throw new ToolError(`The length ${where} is ${value}`);
}

function octal(field: Uint8Array, what: string): number {
  const digits = text(field).trim();
  if (/^[0-7]*$/.test(digits)) return Number.parseInt(digits || "0", 8);
  throw new ToolError(`The ${what} is '${digits}', expected octal digits`);
}

function text(field: Uint8Array): string {
  const end = field.indexOf(0);
  return Buffer.from(end < 0 ? field : field.subarray(0, end)).toString("utf8");
}
