/**
 * Unpacks a tar archive (POSIX.1-2017, pax) into an empty folder. Refuses links, names that object stores may not have,
 * duplicates, and decompression bombs. After a refusal the caller removes the folder.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { freeBytes } from "@nereid/server/files/disk-space";
import { type TarEntry, type TarLimits, TarReader } from "@nereid/server/files/tar/read-tar";
import { ToolError } from "@nereid/server/files/tool-error";
import { MAX_OBJECTS, pathProblem } from "../object-path.ts";

/** Maximum expansion beyond a gigabyte: weights hardly compress, so more is meant to fill disks. */
const MAX_GROWTH = 200;
const ALWAYS_ALLOWED_BYTES = 2 ** 30;
const READ_BYTES = 1 << 20;

/** Limits for unpacking an archive of this length into this folder. */
export async function unpackLimits(archiveBytes: number, folder: string): Promise<TarLimits> {
  const grown = Math.max(ALWAYS_ALLOWED_BYTES, archiveBytes * MAX_GROWTH);
  return { maxBytes: Math.min(grown, await freeBytes(folder)), maxEntries: MAX_OBJECTS };
}

/** Path to SHA-256 of each file; an empty string for a folder. @throws ToolError */
export async function unpackTar(
  archive: string,
  isCompressed: boolean,
  folder: string,
  limits: TarLimits,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const file = createReadStream(archive, { highWaterMark: READ_BYTES, signal });
  const bytes = isCompressed ? pipeline(file, createGunzip({ chunkSize: READ_BYTES }), () => undefined) : file;
  try {
    return await unpack(new TarReader(bytes as unknown as AsyncIterable<Uint8Array>, limits), folder);
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

async function unpack(reader: TarReader, folder: string): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (let entry = await reader.next(); entry !== undefined; entry = await reader.next()) {
    const { kind, name } = entry;
    if (name === ".") continue;
    expectEntry(entry);
    if (kind === "folder") {
      await mkdir(join(folder, name), { recursive: true });
      if (!found.has(name)) found.set(name, "");
    } else {
      if (found.has(name)) throw new ToolError(`The archive has '${name}' twice`);
      found.set(name, await writeFile(reader, join(folder, name)));
    }
  }
  return found;
}

function expectEntry({ kind, name }: TarEntry): void {
  if (kind === "symlink" || kind === "hardlink") {
    throw new ToolError(`The archive's entry '${name}' is a link`, {
      fix: "Pack files and folders only; tar's option --dereference puts files in the place of links",
    });
  }
  const problem = pathProblem(name);
  if (problem !== undefined) throw new ToolError(`The archive's name ${JSON.stringify(name)} is refused: ${problem}`);
}

/** SHA-256 of the content. */
async function writeFile(reader: TarReader, path: string): Promise<string> {
  await mkdir(dirname(path), { recursive: true });
  const file = await open(path, "wx");
  try {
    const hash = createHash("sha256");
    for await (const part of reader.content()) {
      await file.writeFile(part);
      hash.update(part);
    }
    return hash.digest("hex");
  } finally {
    await file.close();
  }
}
