/**
 * Parses an image element of a request: file content, base64, data URL (RFC 2397), or a URL to fetch. Decides by the
 * bytes; fetches and decodes nothing. Pure.
 */
import { Buffer } from "node:buffer";
import { MAX_IMAGE_BYTES, MAX_IMAGE_SOURCE_BYTES, MAX_IMAGE_URL_CHARS } from "@nereid/server/core/limits";
import { invalidArgument, type ServerError } from "@nereid/server/core/server-error";
import { imageFormat, readImageHeader } from "./image-header.ts";

export type ImageSource =
  | { readonly kind: "file"; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: "url"; readonly url: string };

const DATA_URL = /^data:(?:image\/[a-z0-9.+-]+)?(?:;[a-z0-9=._-]+)*;base64,/i;
/** Header of a data URL. */
const MAX_DATA_URL_HEAD = 128;
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;
const SHOWN_BYTES = 8;

/**
 * `bytes` may be in request memory, so the source gets its own copy. @throws ServerError whose text follows "image <n>
 * "
 */
export function readImageSource(bytes: Uint8Array): ImageSource {
  if (bytes.length === 0) throw invalidArgument("is empty");
  if (bytes.length > MAX_IMAGE_SOURCE_BYTES)
    throw invalidArgument(`has ${bytes.length} bytes, expected at most ${MAX_IMAGE_SOURCE_BYTES}`);
  if (imageFormat(bytes) !== undefined) return { kind: "file", bytes: Uint8Array.from(bytes) };
  const head = latin1(bytes.subarray(0, MAX_DATA_URL_HEAD));
  if (/^https?:/i.test(head)) return { kind: "url", url: addressOf(bytes) };
  const prefix = DATA_URL.exec(head);
  if (prefix === null && /^data:/i.test(head)) throw invalidArgument("is a data URL without ';base64,'");
  const text = latin1(bytes.subarray(prefix?.[0].length ?? 0)).replace(/[\r\n]/g, "");
  if (!BASE64.test(text)) throw notAnImage(bytes);
  const decoded = Uint8Array.from(Buffer.from(text, "base64"));
  if (imageFormat(decoded) === undefined) throw notAnImage(prefix === null ? bytes : decoded);
  return { kind: "file", bytes: decoded };
}

/** Checks the size that the file claims, before decoding. @throws ServerError as above */
export function expectDecodable(bytes: Uint8Array, maxPixels: number): void {
  if (bytes.length > MAX_IMAGE_BYTES) {
    throw invalidArgument(`has ${bytes.length} bytes, expected at most ${MAX_IMAGE_BYTES}`);
  }
  const format = imageFormat(bytes);
  if (format === undefined) throw notAnImage(bytes);
  const header = readImageHeader(bytes);
  if (header === undefined) throw invalidArgument(`is broken: it begins like ${format.toUpperCase()}, and has no size`);
  const { width, height } = header;
  if (width * height <= maxPixels) return;
  throw invalidArgument(
    `has ${width} x ${height} pixels, expected at most ${maxPixels} (parameter 'max_pixels_per_image' of the model)`,
  );
}

function addressOf(bytes: Uint8Array): string {
  if (bytes.length > MAX_IMAGE_URL_CHARS) {
    throw invalidArgument(`has an address of ${bytes.length} characters, expected at most ${MAX_IMAGE_URL_CHARS}`);
  }
  return new TextDecoder().decode(bytes);
}

function notAnImage(bytes: Uint8Array): ServerError {
  const start = Buffer.from(bytes.subarray(0, SHOWN_BYTES)).toString("hex");
  return invalidArgument(`is neither PNG, JPEG nor WebP, nor one as base64: it begins with the bytes ${start}`);
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}
