/**
 * Converts a decoded image to pixel values, by the steps of its image processor (transformers). Pure; runs in a worker.
 */
import { invalidArgument, type ServerError } from "@nereid/server/core/server-error";
import { type Size, sizeAfter } from "./image-size.ts";
import { cutTiles, numTiles, patchesOfTile, type TileLayout, tileOrder } from "./image-tiles.ts";
import type { ImageProcessing, PatchLayout } from "./processor-config.ts";
import { type PixelImage, resample } from "./resample.ts";

export interface ProcessedImage {
  /** Without a batch dimension. */
  readonly shape: readonly number[];
  readonly values: Float32Array<ArrayBuffer>;
  /** For patches: frames, rows and columns. */
  readonly grid: readonly [number, number, number] | undefined;
  /** For tiles: order of their patches; see image-tiles.ts. */
  readonly order: Int32Array | undefined;
}

const NUM_CHANNELS = 3;

/** Number of resulting patches; 0 when it stays an image. */
export function numPatches(image: Size, { resize, patches, tiles }: ImageProcessing): number {
  if (tiles !== undefined) return numTiles(image, tiles) * patchesOfTile(tiles);
  if (patches === undefined) return 0;
  const { width, height } = resize === undefined ? image : sizeAfter(resize.rule, image);
  return Math.floor(width / patches.patchSize) * Math.floor(height / patches.patchSize);
}

/** RGB. */
export function processImage(image: PixelImage, processing: ImageProcessing): ProcessedImage {
  if (processing.tiles !== undefined) return toTiles(image, processing, processing.tiles);
  const ready = shaped(image, processing);
  if (processing.patches !== undefined) return toPatches(ready, processing, processing.patches);
  return { ...toValues(ready, processing), grid: undefined, order: undefined };
}

/** In its final size. */
function shaped(image: PixelImage, { pad, resize, crop }: ImageProcessing): PixelImage {
  const square = pad === undefined ? image : padToSquare(image, pad);
  const resized = resize === undefined ? square : resizeBy(square, resize);
  return crop === undefined ? resized : cropCenter(resized, crop);
}

function toValues(ready: PixelImage, processing: ImageProcessing): Pick<ProcessedImage, "shape" | "values"> {
  const { width, height } = ready;
  return processing.layout === "channels_first"
    ? { shape: [NUM_CHANNELS, height, width], values: toPlanes(ready, processing) }
    : { shape: [height, width, NUM_CHANNELS], values: toPixels(ready, processing) };
}

function toTiles(image: PixelImage, processing: ImageProcessing, layout: TileLayout): ProcessedImage {
  const tiles = cutTiles(image, layout).map((tile) => toValues(shaped(tile, processing), processing));
  const [{ shape, values: first } = { shape: [], values: new Float32Array(0) }] = tiles;
  const values = new Float32Array(first.length * tiles.length);
  for (const [index, tile] of tiles.entries()) {
    if (tile.shape.join() !== shape.join()) throw tilesDiffer(shape, tile.shape);
    values.set(tile.values, index * first.length);
  }
  return { shape: [tiles.length, ...shape], values, grid: undefined, order: tileOrder(image, layout) };
}

/** Determined by the description alone. */
function tilesDiffer(whole: readonly number[], tile: readonly number[]): ServerError {
  const text = `the resized image becomes [${whole.join(", ")}], its tiles [${tile.join(", ")}]: 'size' and 'crop_size' of the processor must make them equal`;
  return invalidArgument(text);
}

function resizeBy(image: PixelImage, { rule, filter }: NonNullable<ImageProcessing["resize"]>): PixelImage {
  const { width, height } = sizeAfter(rule, image);
  return resample(image, width, height, filter);
}

function padToSquare(image: PixelImage, color: NonNullable<ImageProcessing["pad"]>): PixelImage {
  const { width, height, data } = image;
  if (width === height) return image;
  const side = Math.max(width, height);
  const out = new Uint8Array(side * side * NUM_CHANNELS);
  for (let at = 0; at < out.length; at += NUM_CHANNELS) {
    out[at] = color.red;
    out[at + 1] = color.green;
    out[at + 2] = color.blue;
  }
  const [left, top] = [(side - width) >> 1, (side - height) >> 1];
  const rowLength = width * NUM_CHANNELS;
  for (let y = 0; y < height; y++) {
    out.set(data.subarray(y * rowLength, (y + 1) * rowLength), ((y + top) * side + left) * NUM_CHANNELS);
  }
  return { width: side, height: side, channels: NUM_CHANNELS, data: out };
}

function cropCenter(image: PixelImage, size: { readonly width: number; readonly height: number }): PixelImage {
  const left = cropStart(image.width, size.width);
  const top = cropStart(image.height, size.height);
  const out = new Uint8Array(size.width * size.height * NUM_CHANNELS);
  const from = Math.max(0, left);
  const numColumns = Math.min(image.width, left + size.width) - from;
  for (let y = 0; y < size.height; y++) {
    const row = y + top;
    if (row < 0 || row >= image.height) continue;
    const start = (row * image.width + from) * NUM_CHANNELS;
    const source = image.data.subarray(start, start + numColumns * NUM_CHANNELS);
    out.set(source, (y * size.width + from - left) * NUM_CHANNELS);
  }
  return { width: size.width, height: size.height, channels: NUM_CHANNELS, data: out };
}

/** Start of the crop in the image; negative when the image is smaller and is centred in the crop. */
function cropStart(length: number, cropLength: number): number {
  const start = Math.floor((length - cropLength) / 2);
  const before = Math.ceil((Math.max(length, cropLength) - length) / 2);
  return Math.max(0, start + before) - before;
}

function toPlanes({ width, height, data }: PixelImage, { values, isBgr }: ImageProcessing): Float32Array<ArrayBuffer> {
  const area = width * height;
  const out = new Float32Array(area * NUM_CHANNELS);
  values.forEach((table, channel) => {
    const plane = (isBgr ? NUM_CHANNELS - 1 - channel : channel) * area;
    for (let i = 0, from = channel; i < area; i++, from += NUM_CHANNELS) out[plane + i] = table[data[from] ?? 0] ?? 0;
  });
  return out;
}

function toPixels({ width, height, data }: PixelImage, { values, isBgr }: ImageProcessing): Float32Array<ArrayBuffer> {
  const out = new Float32Array(width * height * NUM_CHANNELS);
  values.forEach((table, channel) => {
    const to = isBgr ? NUM_CHANNELS - 1 - channel : channel;
    for (let at = 0; at < out.length; at += NUM_CHANNELS) out[at + to] = table[data[at + channel] ?? 0] ?? 0;
  });
  return out;
}

/** Rows are patches, in the order of merged squares. A row holds, per channel, the same frame `temporalSize` times. */
function toPatches(image: PixelImage, processing: ImageProcessing, layout: PatchLayout): ProcessedImage {
  const { patchSize, mergeSize, temporalSize } = layout;
  const [rows, columns] = [Math.floor(image.height / patchSize), Math.floor(image.width / patchSize)];
  const area = patchSize * patchSize;
  const rowLength = NUM_CHANNELS * temporalSize * area;
  const values = new Float32Array(rows * columns * rowLength);
  let to = 0;
  for (let top = 0; top < rows; top += mergeSize) {
    for (let left = 0; left < columns; left += mergeSize) {
      for (let inner = 0; inner < mergeSize * mergeSize; inner++) {
        const y = (top + Math.floor(inner / mergeSize)) * patchSize;
        const x = (left + (inner % mergeSize)) * patchSize;
        writePatch(image, processing, layout, x, y, values.subarray(to, to + rowLength));
        to += rowLength;
      }
    }
  }
  return { shape: [rows * columns, rowLength], values, grid: [1, rows, columns], order: undefined };
}

function writePatch(
  { width, data }: PixelImage,
  { values, isBgr }: ImageProcessing,
  { patchSize, temporalSize }: PatchLayout,
  left: number,
  top: number,
  out: Float32Array,
): void {
  const area = patchSize * patchSize;
  values.forEach((table, channel) => {
    const first = (isBgr ? NUM_CHANNELS - 1 - channel : channel) * temporalSize * area;
    for (let y = 0; y < patchSize; y++) {
      let from = ((top + y) * width + left) * NUM_CHANNELS + channel;
      for (let x = 0; x < patchSize; x++, from += NUM_CHANNELS) {
        out[first + y * patchSize + x] = table[data[from] ?? 0] ?? 0;
      }
    }
    for (let frame = 1; frame < temporalSize; frame++) out.copyWithin(first + frame * area, first, first + area);
  });
}
