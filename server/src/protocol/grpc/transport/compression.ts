/**
 * Message compression: accepted encodings, the choice for a response, and the work itself off the main thread (gRPC
 * over HTTP/2, "Compressed-Flag"; https://github.com/grpc/grpc/blob/master/doc/compression.md).
 */
import { promisify } from "node:util";
import { deflate, gzip } from "node:zlib";
import { ServerError } from "../../../core/server-error.ts";
import { InflatedTooLarge, inflateInSteps, type Share } from "../../inflate.ts";
import type { GrpcCompressionLevel } from "../options.ts";
import { GRPC_STATUS, GrpcError } from "../status.ts";

export type GrpcEncoding = "identity" | "gzip" | "deflate";

export const ACCEPTED_ENCODINGS = "identity,deflate,gzip";

const deflateBy = { gzip: promisify(gzip), deflate: promisify(deflate) };
/** Messages are a few KiB or many MiB: small steps of growth would cost the large ones a hundred thousand pieces. */
const CHUNK_BYTES = 64 * 1024;

/** @throws GrpcError for an encoding that is not known here */
export function parseGrpcEncoding(header: string | undefined): GrpcEncoding {
  if (header === undefined || header === "identity") return "identity";
  if (header === "gzip" || header === "deflate") return header;
  throw new GrpcError(GRPC_STATUS.unimplemented, `Compression algorithm '${header}' is not supported`);
}

/** Encoding of responses. The low level prefers gzip, the others deflate; identity if the client takes neither. */
export function chooseEncoding(level: GrpcCompressionLevel, acceptHeader: string | undefined): GrpcEncoding {
  if (level === "none" || acceptHeader === undefined) return "identity";
  const accepted = acceptHeader.split(",").map((name) => name.trim());
  const preferred = level === "low" ? (["gzip", "deflate"] as const) : (["deflate", "gzip"] as const);
  return preferred.find((name) => accepted.includes(name)) ?? "identity";
}

/** Inflates one message, never past the limit, and counts it in `share`. @throws GrpcError @throws ServerError unavailable */
export async function inflateMessage(
  data: Uint8Array,
  encoding: GrpcEncoding,
  maxBytes: number,
  share: Share,
): Promise<Uint8Array> {
  if (encoding === "identity") {
    throw new GrpcError(GRPC_STATUS.internal, "Message is marked as compressed, but the call has no grpc-encoding");
  }
  try {
    return await inflateInSteps(data, encoding, maxBytes, share);
  } catch (error) {
    if (error instanceof ServerError) throw error;
    if (error instanceof InflatedTooLarge) {
      throw new GrpcError(GRPC_STATUS.resourceExhausted, `Decompressed message is larger than max (${maxBytes})`);
    }
    throw new GrpcError(GRPC_STATUS.internal, `Message is not valid ${encoding} data`, { cause: error });
  }
}

export async function deflateMessage(data: Uint8Array, encoding: "gzip" | "deflate"): Promise<Uint8Array> {
  return await deflateBy[encoding](data, { chunkSize: CHUNK_BYTES });
}
