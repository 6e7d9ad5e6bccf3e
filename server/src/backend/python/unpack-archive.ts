/**
 * Unpacks a tar archive of an execution environment, gzipped (RFC 1952) or not, into a new folder. The archive is not
 * trusted: nothing is written or linked outside of the folder, and no more than the limits allow.
 */
import { createReadStream } from "node:fs";
import { link, mkdir, open, realpath, symlink } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import { pipeline, type Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { insideName, type TarEntry, type TarLimits, TarReader } from "../../files/tar/read-tar.ts";

/** Environments with GPU libraries have some 100,000 files and 15 GB. */
export const ARCHIVE_LIMITS: TarLimits = { maxEntries: 1_000_000, maxBytes: 64 * 1024 ** 3 };

const READ_BYTES: number = 1024 * 1024;
const GZIP_MAGIC = 0x1f8b;

/** @throws RangeError naming the entry that cannot be unpacked; Error from the file system */
export async function unpackArchive(
  archive: string,
  folder: string,
  limits: TarLimits = ARCHIVE_LIMITS,
): Promise<void> {
  const stream = await openArchive(archive);
  try {
    await unpack(new TarReader(stream as AsyncIterable<Uint8Array>, limits), folder);
  } finally {
    stream.destroy();
  }
}

async function openArchive(path: string): Promise<Readable> {
  const file = await open(path);
  const magic = Buffer.alloc(2);
  await file.read(magic, 0, 2, 0);
  await file.close();
  const stream = createReadStream(path, { highWaterMark: READ_BYTES });
  if (magic.readUInt16BE(0) !== GZIP_MAGIC) return stream;
  return pipeline(stream, createGunzip({ chunkSize: READ_BYTES }), () => undefined);
}

/** Links come last: so no file is ever written through one. */
async function unpack(reader: TarReader, folder: string): Promise<void> {
  const links: TarEntry[] = [];
  for (let entry = await reader.next(); entry !== undefined; entry = await reader.next()) {
    const path = join(folder, entry.name);
    if (entry.kind === "file") await writeFile(reader, entry, path);
    else if (entry.kind === "folder") await mkdir(path, { recursive: true });
    else links.push(entry);
  }
  const root = await realpath(folder);
  for (const entry of links) await makeLink(root, entry);
}

async function writeFile(reader: TarReader, { mode }: TarEntry, path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const file = await open(path, "w", mode | 0o600);
  try {
    for await (const part of reader.content()) await file.writeFile(part);
  } finally {
    await file.close();
  }
}

async function makeLink(root: string, { kind, name, target }: TarEntry): Promise<void> {
  const what = `link '${name}' to '${target}'`;
  const path = await realPath(root, name, what);
  if (kind === "hardlink") {
    await link(await realPath(root, insideName(target, what), what), path);
    return;
  }
  if (target.startsWith("/")) throw new RangeError(`${what} leads out of the archive`);
  insideName(posix.join(posix.dirname(name), target), what);
  await symlink(target, path);
}

/** A path whose folders are folders: through a link, ".." would lead elsewhere than it seems to. */
async function realPath(root: string, name: string, what: string): Promise<string> {
  const path = join(root, name);
  const parent = dirname(path);
  await mkdir(parent, { recursive: true });
  if ((await realpath(parent)) !== parent) throw new RangeError(`${what} goes through another link`);
  return path;
}
