import assert from "node:assert/strict";
import { test } from "node:test";
import { startContentHash } from "./content-hash.ts";

/** From RFC 3720, B.4, as numbers; and the check value of the CRC catalogue. */
const KNOWN: readonly (readonly [string, Uint8Array, string])[] = [
  ["zeros", new Uint8Array(32), "8a9136aa"],
  ["ones", new Uint8Array(32).fill(0xff), "62a8ab43"],
  ["ascending", Uint8Array.from({ length: 32 }, (_, i) => i), "46dd794e"],
  ["digits", Buffer.from("123456789"), "e3069283"],
  ["nothing", new Uint8Array(0), "00000000"],
];
for (const [title, bytes, digest] of KNOWN) {
  test(`a CRC-32C of ${title} is the published one, in pieces too`, () => {
    const hash = startContentHash("crc32c", bytes.length);
    hash.update(bytes.subarray(0, 7));
    hash.update(bytes.subarray(7));
    assert.equal(hash.digest(), digest);
  });
}

test("startContentHash() knows git's blobs by their length and content", () => {
  const hash = startContentHash("git", 6);
  hash.update(Buffer.from("hello\n"));
  assert.equal(hash.digest(), "ce013625030ba8dba906f756967f9e9ca394464a");
});
