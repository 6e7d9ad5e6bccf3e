/**
 * The hash by which a hub identifies a file, computed incrementally: SHA-256 for LFS files, git's SHA-1 of a blob for
 * others (git-hash-object(1)).
 */
import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import type { HubFile } from "./listing.ts";

const READ_BYTES = 1 << 20;

/** `hash` undefined: the server states none, and nothing is compared. */
export function startHash({
  hash,
  bytes,
}: Pick<HubFile, "bytes"> & { readonly hash: HubFile["hash"] | undefined }): Hash {
  if (hash?.kind !== "git") return createHash("sha256");
  return createHash("sha1").update(`blob ${bytes}\0`);
}

/** Adds the first bytes of a file on disk. */
export async function hashFile(
  path: string,
  hash: Hash,
  signal: AbortSignal,
  onBytes: (bytes: number) => void,
): Promise<void> {
  for await (const chunk of createReadStream(path, { highWaterMark: READ_BYTES, signal })) {
    const bytes = chunk as Uint8Array;
    hash.update(bytes);
    onBytes(bytes.byteLength);
  }
}

export async function isContentOf(path: string, file: HubFile, signal: AbortSignal): Promise<boolean> {
  const hash = startHash(file);
  await hashFile(path, hash, signal, () => undefined);
  return hash.digest("hex") === file.hash.hex;
}
