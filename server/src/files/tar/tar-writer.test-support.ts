/** Tar archives for tests, valid and malicious (POSIX.1-2017, pax). */

export interface TarEntry {
  readonly name: string;
  readonly content?: string | Buffer;
  /** "0" a file, "5" a folder; others as in the format. */
  readonly type?: string;
  readonly link?: string;
  /** Overrides the length of the content. */
  readonly bytes?: number;
  /** "ustar\0" and "00" of POSIX by default; "ustar  \0" is GNU's, "" that of Version 7. */
  readonly magic?: string;
  /** Writes to the header before its checksum. */
  readonly patch?: (header: Buffer) => void;
  /** Sum of the header, wrong by so much. */
  readonly wrongBy?: number;
}

export function tarOf(entries: readonly TarEntry[], end = Buffer.alloc(1024)): Buffer {
  return Buffer.concat([...entries.flatMap(entryBlocks), end]);
}

/** A pax attribute record before an entry. */
export function pax(records: Readonly<Record<string, string>>): TarEntry {
  const lines = Object.entries(records).map(([key, value]) => {
    const rest = Buffer.byteLength(` ${key}=${value}\n`);
    let length = rest + 1;
    while (String(length).length + rest !== length) length = String(length).length + rest;
    return `${length} ${key}=${value}\n`;
  });
  return { name: "PaxHeader", type: "x", content: lines.join("") };
}

function entryBlocks(entry: TarEntry): Buffer[] {
  const { name, content = "", type = "0", link = "", bytes, magic = "ustar\x0000", patch, wrongBy = 0 } = entry;
  const body = Buffer.from(content);
  const header = Buffer.alloc(512);
  header.write(name, 0, 100, "utf8");
  header.write("0000644\0", 100);
  header.write(`${(bytes ?? body.length).toString(8).padStart(11, "0")}\0`, 124);
  header.write("        ", 148);
  header.write(type, 156);
  header.write(link, 157, 100, "utf8");
  header.write(magic, 257);
  patch?.(header);
  const sum = header.reduce((total, byte) => total + byte, wrongBy);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return [header, body, Buffer.alloc((512 - (body.length % 512)) % 512)];
}
