/**
 * Keys that distinguish equal token ids in the prefix cache. Ids of a prompt table depend on the table, image tokens on
 * their positions, and a request may give keys of its own. Text before an image is still shared.
 */
import { createHash } from "node:crypto";
import type { GenerateRequest } from "../request/generate.ts";

/** Two numbers for each prompt token, zero for plain text; undefined when all are. */
export function tokenKeys(
  { promptTokens, promptTable, tokenSalts, promptPositions }: GenerateRequest,
  vocabSize: number,
): Int32Array | undefined {
  if (promptTable === undefined && tokenSalts === undefined && promptPositions === undefined) return undefined;
  const keys = new Int32Array(2 * promptTokens.length);
  const salts = tokenSalts === undefined ? undefined : halvesOf(tokenSalts);
  if (salts !== undefined) keys.set(salts.subarray(0, keys.length));
  if (promptPositions !== undefined) mixPositions(keys, promptPositions);
  if (promptTable === undefined) return keys;
  const width = promptTable.values.length / Math.max(1, promptTable.numRows);
  for (let i = 0; i < promptTokens.length; i++) {
    const row = (promptTokens[i] ?? 0) - vocabSize;
    if (row < 0) continue;
    const content = promptTable.values.subarray(row * width, (row + 1) * width);
    keys.set(keyOf(content, keys.subarray(2 * i, 2 * i + 2)), 2 * i);
  }
  return keys;
}

/**
 * A token right behind all before it needs no key: what is before it says where it stands. So it is with output, which comes
 * without keys.
 */
function mixPositions(keys: Int32Array, positions: Int32Array): void {
  const length = keys.length / 2;
  let next = 0;
  for (let i = 0; i < length; i++) {
    const place = Int32Array.of(positions[i] ?? 0, positions[length + i] ?? 0, positions[2 * length + i] ?? 0);
    if (place.some((position) => position !== next)) {
      keys.set(keyOf(place, keys.subarray(2 * i, 2 * i + 2)), 2 * i);
    }
    next = place.reduce((most, position) => Math.max(most, position + 1), next);
  }
}

/** The content hash is always included: a wrong number from a request must not mix images. */
function keyOf(content: Float32Array | Int32Array, salt: Int32Array): Int32Array {
  const hash = createHash("sha256").update(bytesOf(content)).update(bytesOf(salt)).digest();
  return Int32Array.of(hash.readInt32LE(0), hash.readInt32LE(4));
}

function halvesOf(values: BigUint64Array): Int32Array {
  return new Int32Array(values.buffer, values.byteOffset, 2 * values.length);
}

function bytesOf(values: Float32Array | Int32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
