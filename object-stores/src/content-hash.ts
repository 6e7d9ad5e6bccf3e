/** What the content of an object must hash to, over bytes as they come. */
import { createHash } from "node:crypto";
import { Crc32c } from "./crc32c.ts";
import type { Checksum } from "./object-store.ts";

export interface ContentHash {
  update(bytes: Uint8Array): void;
  /** Lower-case hex. */
  digest(): string;
}

/** `bytes`: length of the whole content. */
export function startContentHash(kind: Checksum["kind"], bytes: number): ContentHash {
  if (kind === "crc32c") return new Crc32c();
  const hash = createHash(kind === "git" ? "sha1" : kind);
  if (kind === "git") hash.update(`blob ${bytes}\0`);
  return { update: (chunk) => void hash.update(chunk), digest: () => hash.digest("hex") };
}
