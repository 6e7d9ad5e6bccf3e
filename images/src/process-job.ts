/** Decodes and processes the images of one request into one buffer. Knows no process. */
import { numberToFp16 } from "@nereid/server/core/fp16";
import { invalidArgument, ServerError } from "@nereid/server/core/server-error";
import type { DecodeImage } from "./decode-image.ts";
import { readImageHeader } from "./image-header.ts";
import { END_OF_ROW, patchesOfTile } from "./image-tiles.ts";
import type { ImageResult, JobSettings } from "./messages.ts";
import type { PixelBudget } from "./pixel-budget.ts";
import { numPatches, type ProcessedImage, processImage } from "./process-image.ts";
import type { ImageProcessing } from "./processor-config.ts";

export interface ImageTools {
  readonly decode: DecodeImage;
  readonly budget: PixelBudget;
}

/** Sequentially, so that only one decoded image is in memory. @throws ServerError naming the invalid image */
export async function processJob(
  { processing, pixelType, maxPixels, maxPatches }: JobSettings,
  { decode, budget }: ImageTools,
  images: readonly Uint8Array[],
): Promise<ImageResult> {
  const processed: ProcessedImage[] = [];
  const sizes: [number, number][] = [];
  let patches = 0;
  for (const [index, bytes] of images.entries()) {
    const { width = 1, height = 1 } = readImageHeader(bytes) ?? {};
    await budget.run(width * height, async () => {
      const image = await decode(bytes, maxPixels).catch((error: unknown) => {
        throw error instanceof ServerError ? new ServerError(error.code, `image ${index} ${error.message}`) : error;
      });
      sizes.push([image.height, image.width]);
      patches += numPatches(image, processing);
      if (patches > maxPatches) throw tooMany(patches, maxPatches);
      processed.push(processImage(image, processing));
    });
  }
  const grids = processed.flatMap(({ grid }) => (grid === undefined ? [] : [grid]));
  const isList = processing.patches !== undefined || processing.tiles !== undefined;
  const shape = isList ? listShape(processed) : commonShape(processed);
  const data = packed(processed, pixelType);
  return {
    shape,
    data,
    sizes,
    grids,
    order: joinOrders(processed, processing),
    lengths: lengthsOf(processed, processing),
  };
}

/** Counted before processing. */
function tooMany(count: number, most: number): ServerError {
  const text = `images become ${count} patches or more, expected at most ${most} (parameter 'max_patches_per_request'): send smaller or fewer ones, or lower the processor's 'max_pixels'`;
  return invalidArgument(text);
}

function commonShape(images: readonly ProcessedImage[]): readonly number[] {
  const [first = { shape: [] as readonly number[] }] = images;
  for (const [index, { shape }] of images.entries()) {
    if (shape.join() === first.shape.join()) continue;
    const text = `images of one request must become the same size: image 0 is [${first.shape.join(", ")}], image ${index} is [${shape.join(", ")}]; let the processor crop or resize to a fixed size`;
    throw invalidArgument(text);
  }
  return first.shape;
}

/** Patches or tiles of all images, concatenated. */
function listShape(images: readonly ProcessedImage[]): readonly number[] {
  const count = images.reduce((sum, { shape }) => sum + (shape[0] ?? 0), 0);
  return [count, ...(images[0]?.shape.slice(1) ?? [])];
}

/** Patch indices are counted through the tiles of all images. */
function joinOrders(images: readonly ProcessedImage[], { tiles }: ImageProcessing): Int32Array {
  const out = new Int32Array(images.reduce((sum, { order }) => sum + (order?.length ?? 0), 0));
  let [at, before] = [0, 0];
  for (const { order, shape } of images) {
    for (const patch of order ?? []) out[at++] = patch === END_OF_ROW ? END_OF_ROW : before + patch;
    before += tiles === undefined ? 0 : (shape[0] ?? 0) * patchesOfTile(tiles);
  }
  return out;
}

function lengthsOf(images: readonly ProcessedImage[], { patches }: ImageProcessing): readonly number[] {
  const perToken = (patches?.mergeSize ?? 1) ** 2;
  return images.flatMap(({ order, grid, shape }) => {
    if (grid !== undefined) return [(shape[0] ?? 0) / perToken];
    return order === undefined ? [] : [order.length];
  });
}

function packed(images: readonly ProcessedImage[], pixelType: JobSettings["pixelType"]): Uint8Array<ArrayBuffer> {
  const count = images.reduce((sum, { values }) => sum + values.length, 0);
  const out = pixelType === "FP32" ? new Float32Array(count) : new Uint16Array(count);
  let at = 0;
  for (const { values } of images) {
    if (pixelType === "FP32") out.set(values, at);
    else for (let i = 0; i < values.length; i++) out[at + i] = numberToFp16(values[i] ?? 0);
    at += values.length;
  }
  return new Uint8Array(out.buffer);
}
