/**
 * Which inputs a Python process maps by itself because they lie in a client's shared memory. Knows no message. The counterpart
 * is `server/python/nereid_stub/client_memory.py`.
 */
import { findObject } from "../../native/posix-memory.ts";
import type { ClientRegion } from "./wire-codec.ts";

/** Smaller data is copied: that costs less than a mapping and the faults of its pages. */
export const MAP_BYTES: number = 2 * 1024 * 1024;
/** Alignment that SIMD code expects of arrays. */
const ALIGNMENT = 64;

/** Undefined: the data is to be copied. */
export function locateInClient(data: Uint8Array): ClientRegion | undefined {
  if (data.length < MAP_BYTES) return undefined;
  const object = findObject(data);
  return object === undefined || object.offset % ALIGNMENT !== 0 ? undefined : object;
}
