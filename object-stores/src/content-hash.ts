/**
 * Verifies the expected hash of an object's content incrementally: MD5 (RFC 1321), SHA-256 and SHA-1 (FIPS 180-4),
 * CRC32C (RFC 3720), git blob ids.
 */
import { createHash } from "node:crypto";
import { Crc32c } from "./crc32c.ts";
import type { Checksum } from "./object-store.ts";

export interface ContentHash {
  update(bytes: Uint8Array): void;
  /** Lower-case hex. */
  digest(): string;
}

/** `bytes` is the length of the whole content. */
export function startContentHash(kind: Checksum["kind"], bytes: number): ContentHash {
  if (kind === "crc32c") return new Crc32c();
  const hash = createHash(kind === "git" ? "sha1" : kind);
  if (kind === "git") hash.update(`blob ${bytes}\0`);
  return { update: (chunk) => void hash.update(chunk), digest: () => hash.digest("hex") };
}
