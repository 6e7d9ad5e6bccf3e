/**
 * Decodes PNG, JPEG and WebP to RGB rows with sharp; the only file that uses it. Errors of its library are replaced,
 * because they mention memory and local files. Formats: PNG (W3C), JPEG (ITU-T T.81), WebP (RFC 9649).
 */

import { ServerError } from "@nereid/server/core/server-error";
import type Sharp from "sharp";
import type { PixelImage } from "./resample.ts";

export type DecodeImage = (bytes: Uint8Array, maxPixels: number) => Promise<PixelImage>;

const NUM_CHANNELS = 3;

/** @throws ServerError when the package is not installed */
export async function loadDecoder(): Promise<DecodeImage> {
  const sharp = await importSharp();
  sharp.cache(false);
  sharp.concurrency(1); // images are decoded concurrently
  return (bytes, maxPixels) => decode(sharp, bytes, maxPixels);
}

async function importSharp(): Promise<typeof Sharp> {
  try {
    return (await import("sharp")).default;
  } catch (cause) {
    const text = "the backend image needs the package sharp, which is not installed here; run: npm install sharp";
    throw new ServerError("unavailable", text, { cause });
  }
}

/** Like Pillow: color profiles are not applied, transparency is dropped, EXIF orientation is applied. */
async function decode(sharp: typeof Sharp, bytes: Uint8Array, maxPixels: number): Promise<PixelImage> {
  try {
    const image = sharp(bytes, { limitInputPixels: maxPixels, failOn: "error", ignoreIcc: true, sequentialRead: true });
    const { data, info } = await image.autoOrient().removeAlpha().toColourspace("srgb").raw().toBuffer({
      resolveWithObject: true,
    });
    return toThreeChannels({ width: info.width, height: info.height, channels: info.channels, data });
  } catch (cause) {
    throw new ServerError("invalid_argument", "is broken: it can not be decoded", { cause });
  }
}

function toThreeChannels(image: PixelImage): PixelImage {
  if (image.channels === NUM_CHANNELS) return image;
  const { width, height, channels, data } = image;
  const out = new Uint8Array(width * height * NUM_CHANNELS);
  for (let i = 0, at = 0; at < out.length; i += channels, at += NUM_CHANNELS)
    out.fill(data[i] ?? 0, at, at + NUM_CHANNELS);
  return { width, height, channels: NUM_CHANNELS, data: out };
}
