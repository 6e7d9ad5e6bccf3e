/** The pictures of one request, decoded and processed into one piece of memory. Knows no process. */
import { numberToHalf } from "@nereid/server/core/half";
import { ServerError } from "@nereid/server/core/server-error";
import type { DecodePicture } from "./decode-picture.ts";
import type { JobSettings, PictureResult } from "./messages.ts";
import { readPictureHeader } from "./picture-header.ts";
import { END_OF_ROW, patchesOfTile } from "./picture-tiles.ts";
import type { PixelBudget } from "./pixel-budget.ts";
import { numPatches, type ProcessedPicture, processPicture } from "./process-picture.ts";
import type { ImageProcessing } from "./processor-config.ts";

export interface PictureTools {
  readonly decode: DecodePicture;
  readonly budget: PixelBudget;
}

/** Decoded one after the other: one at a time is in memory in full. @throws ServerError naming the picture that is wrong */
export async function processJob(
  { processing, pixelType, maxPixels, maxPatches }: JobSettings,
  { decode, budget }: PictureTools,
  pictures: readonly Uint8Array[],
): Promise<PictureResult> {
  const processed: ProcessedPicture[] = [];
  const sizes: [number, number][] = [];
  let patches = 0;
  for (const [index, bytes] of pictures.entries()) {
    const { width = 1, height = 1 } = readPictureHeader(bytes) ?? {};
    await budget.run(width * height, async () => {
      const picture = await decode(bytes, maxPixels).catch((error: unknown) => {
        throw error instanceof ServerError ? new ServerError(error.code, `picture ${index} ${error.message}`) : error;
      });
      sizes.push([picture.height, picture.width]);
      patches += numPatches(picture, processing);
      if (patches > maxPatches) throw tooMany(patches, maxPatches);
      processed.push(processPicture(picture, processing));
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

/** Counted before any of them is made. */
function tooMany(count: number, most: number): ServerError {
  const text = `pictures become ${count} patches or more, expected at most ${most} (parameter 'max_patches_per_request'): send smaller or fewer ones, or lower the processor's 'max_pixels'`;
  return new ServerError("invalid_argument", text);
}

function commonShape(pictures: readonly ProcessedPicture[]): readonly number[] {
  const [first = { shape: [] as readonly number[] }] = pictures;
  for (const [index, { shape }] of pictures.entries()) {
    if (shape.join() === first.shape.join()) continue;
    const text = `pictures of one request must become the same size: picture 0 is [${first.shape.join(", ")}], picture ${index} is [${shape.join(", ")}]; let the processor crop or resize to a fixed size`;
    throw new ServerError("invalid_argument", text);
  }
  return first.shape;
}

/** Patches or tiles of all pictures, one after the other. */
function listShape(pictures: readonly ProcessedPicture[]): readonly number[] {
  const count = pictures.reduce((sum, { shape }) => sum + (shape[0] ?? 0), 0);
  return [count, ...(pictures[0]?.shape.slice(1) ?? [])];
}

/** Patches are counted through the tiles of all pictures. */
function joinOrders(pictures: readonly ProcessedPicture[], { tiles }: ImageProcessing): Int32Array {
  const out = new Int32Array(pictures.reduce((sum, { order }) => sum + (order?.length ?? 0), 0));
  let [at, before] = [0, 0];
  for (const { order, shape } of pictures) {
    for (const patch of order ?? []) out[at++] = patch === END_OF_ROW ? END_OF_ROW : before + patch;
    before += tiles === undefined ? 0 : (shape[0] ?? 0) * patchesOfTile(tiles);
  }
  return out;
}

function lengthsOf(pictures: readonly ProcessedPicture[], { patches }: ImageProcessing): readonly number[] {
  const perToken = (patches?.mergeSize ?? 1) ** 2;
  return pictures.flatMap(({ order, grid, shape }) => {
    if (grid !== undefined) return [(shape[0] ?? 0) / perToken];
    return order === undefined ? [] : [order.length];
  });
}

function packed(pictures: readonly ProcessedPicture[], pixelType: JobSettings["pixelType"]): Uint8Array<ArrayBuffer> {
  const count = pictures.reduce((sum, { values }) => sum + values.length, 0);
  const out = pixelType === "FP32" ? new Float32Array(count) : new Uint16Array(count);
  let at = 0;
  for (const { values } of pictures) {
    if (pixelType === "FP32") out.set(values, at);
    else for (let i = 0; i < values.length; i++) out[at + i] = numberToHalf(values[i] ?? 0);
    at += values.length;
  }
  return new Uint8Array(out.buffer);
}
