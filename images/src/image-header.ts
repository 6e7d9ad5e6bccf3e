/**
 * Detects image format and size from the first bytes of a file, without decoding. Source: PNG (W3C), JPEG (ITU-T T.81,
 * annex B), WebP (RFC 9649).
 */

export type ImageFormat = "png" | "jpeg" | "webp";

export interface ImageHeader {
  readonly format: ImageFormat;
  readonly width: number;
  readonly height: number;
}

const PNG_SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const PNG_HEADER_BYTES = 24;
/** Start-of-frame markers are C0 to CF without tables (C4), the reserved one (C8) and arithmetic conditions (CC). */
const NOT_FRAMES: readonly number[] = [0xc4, 0xc8, 0xcc];
const JPEG_FRAME_BYTES = 9;
const WEBP_HEADER_BYTES = 30;

/** Undefined: none of the three formats by its first bytes. */
export function imageFormat(bytes: Uint8Array): ImageFormat | undefined {
  if (PNG_SIGNATURE.every((byte, i) => bytes[i] === byte)) return "png";
  if (bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff) return "jpeg";
  return textAt(bytes, 0) === "RIFF" && textAt(bytes, 8) === "WEBP" ? "webp" : undefined;
}

/** Undefined: not one of the formats, or truncated before its size. */
export function readImageHeader(bytes: Uint8Array): ImageHeader | undefined {
  const format = imageFormat(bytes);
  if (format === undefined) return undefined;
  const size = READERS[format](bytes, new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  return size === undefined || size.width === 0 || size.height === 0 ? undefined : { format, ...size };
}

interface Size {
  readonly width: number;
  readonly height: number;
}

type ReadSize = (bytes: Uint8Array, view: DataView) => Size | undefined;

const READERS: Readonly<Record<ImageFormat, ReadSize>> = { png: readPng, jpeg: readJpeg, webp: readWebp };

function readPng(bytes: Uint8Array, view: DataView): Size | undefined {
  if (bytes.length < PNG_HEADER_BYTES || textAt(bytes, 12) !== "IHDR") return undefined;
  return { width: view.getUint32(16), height: view.getUint32(20) };
}

function readJpeg(bytes: Uint8Array, view: DataView): Size | undefined {
  let at = 2;
  while (at + JPEG_FRAME_BYTES <= bytes.length) {
    if (bytes[at] !== 0xff) return undefined;
    const marker = bytes[at + 1] ?? 0;
    if (marker === 0xff) {
      at += 1; // fill bytes
      continue;
    }
    if (marker === 0xd9 || marker === 0xda) return undefined; // end of image or start of scan before any size
    if (isFrame(marker)) return { height: view.getUint16(at + 5), width: view.getUint16(at + 7) };
    const isStandalone = marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8); // no length follows
    at += isStandalone ? 2 : 2 + Math.max(2, view.getUint16(at + 2));
  }
  return undefined;
}

function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && !NOT_FRAMES.includes(marker);
}

function readWebp(bytes: Uint8Array, view: DataView): Size | undefined {
  if (bytes.length < WEBP_HEADER_BYTES) return undefined;
  const kind = textAt(bytes, 12);
  if (kind === "VP8X") return { width: 1 + uint24(view, 24), height: 1 + uint24(view, 27) };
  if (kind === "VP8L") {
    const bits = view.getUint32(21, true);
    return { width: 1 + (bits & 0x3fff), height: 1 + ((bits >>> 14) & 0x3fff) };
  }
  if (kind !== "VP8 ") return undefined;
  return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
}

function uint24(view: DataView, at: number): number {
  return view.getUint16(at, true) | (view.getUint8(at + 2) << 16);
}

function textAt(bytes: Uint8Array, at: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + 4));
}
