/** Compressed bodies of requests, by the platform's streams (WHATWG Compression; RFC 9110, 8.4.1: deflate is zlib's format). */
import { joinPieces } from "./exchange.ts";

export type CompressionAlgorithm = "gzip" | "deflate";

export async function compressPieces(
  pieces: readonly Uint8Array[],
  algorithm: CompressionAlgorithm,
): Promise<Uint8Array> {
  const compression = new CompressionStream(algorithm);
  const writer = compression.writable.getWriter();
  const written = (async () => {
    for (const piece of pieces) await writer.write(piece as Uint8Array<ArrayBuffer>);
    await writer.close();
  })();
  const chunks: Uint8Array[] = [];
  const reader = compression.readable.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
  }
  await written;
  return joinPieces(chunks);
}
