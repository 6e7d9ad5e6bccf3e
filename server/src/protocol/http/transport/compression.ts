/** Compressed request bodies (RFC 9110, 8.4), and the choice of a response's encoding (RFC 9110, 12.5.3). */
import { promisify } from "node:util";
import { deflate, deflateSync, gzip, gzipSync } from "node:zlib";
import { invalidArgument, ServerError } from "../../../core/server-error.ts";
import { InflatedTooLarge, inflateInSteps, type Share } from "../../inflate.ts";

export type Encoding = "identity" | "gzip" | "deflate";

/** Smaller bodies are compressed at once: the way to the thread pool costs more than the work. */
const MAX_SYNC_BYTES = 16_384;

const gzipAsync: (bytes: Uint8Array) => Promise<Buffer> = promisify(gzip);
const deflateAsync: (bytes: Uint8Array) => Promise<Buffer> = promisify(deflate);

/** The encoding of a request body, undefined when it is none that we know. */
export function requestEncoding(header: string | undefined): Encoding | undefined {
  if (header === undefined || header === "" || header === "identity") return "identity";
  return header === "gzip" || header === "deflate" ? header : undefined;
}

/**
 * Inflates, and counts the result in `share`. A body that does not inflate counts as empty, as upstream.
 * @throws ServerError when it grows beyond `maxBytes`, or the server holds too much
 */
export async function inflateBody(bytes: Buffer, encoding: Encoding, maxBytes: number, share: Share): Promise<Buffer> {
  if (encoding === "identity") return bytes;
  try {
    return await inflateInSteps(bytes, encoding, maxBytes, share);
  } catch (error) {
    if (error instanceof ServerError) throw error;
    if (!(error instanceof InflatedTooLarge)) return Buffer.alloc(0);
    throw invalidArgument(
      `Decompressed data size exceeds the maximum allowed value of ${maxBytes} bytes. Use --http-max-input-size to increase the limit.`,
    );
  }
}

/** The best of what `Accept-Encoding` allows: highest weight first, then the order in the header. */
export function responseEncoding(header: string | undefined): Encoding {
  if (header === undefined) return "identity";
  let best: Encoding = "identity";
  let bestWeight = 0;
  for (const item of header.split(",")) {
    const [name = "", ...parameters] = item.split(";").map((text) => text.trim());
    if (name !== "gzip" && name !== "deflate" && name !== "identity") continue;
    const weight = weightOf(parameters);
    if (weight > bestWeight) {
      best = name;
      bestWeight = weight;
    }
  }
  return best;
}

function weightOf(parameters: readonly string[]): number {
  for (const parameter of parameters) {
    if (!parameter.startsWith("q=")) continue;
    const weight = Number(parameter.slice(2));
    return Number.isFinite(weight) ? weight : 0;
  }
  return 1;
}

export async function compressBody(body: readonly Uint8Array[], encoding: "gzip" | "deflate"): Promise<Buffer> {
  const [only] = body;
  const bytes = body.length === 1 && only !== undefined ? only : Buffer.concat(body);
  if (bytes.length <= MAX_SYNC_BYTES) return encoding === "gzip" ? gzipSync(bytes) : deflateSync(bytes);
  return encoding === "gzip" ? gzipAsync(bytes) : deflateAsync(bytes);
}
