/** Bodies without their compression (RFC 9110, 8.4.1). */
import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";

const DECODERS: Readonly<Record<string, typeof gunzipSync>> = {
  gzip: gunzipSync,
  "x-gzip": gunzipSync,
  deflate: inflateSync,
};

/** Undefined: the encoding is not known, or the body is not in it, or has more than `maxBytes`. */
export function decodedBody(bytes: Buffer, encoding: string, maxBytes: number): Buffer | undefined {
  if (encoding === "identity" || bytes.length === 0) return bytes;
  const decode = encoding === "br" ? brotliDecompressSync : DECODERS[encoding];
  if (decode === undefined) return undefined;
  try {
    return decode(bytes, { maxOutputLength: maxBytes });
  } catch {
    return undefined; // zlib says no more than that
  }
}
