/**
 * Tiles of one image for LLaVA-NeXT ("anyres", Liu et al. 2024): the whole image, and the image at the best supported
 * resolution, cut into tiles. Also the order of their patches: padding is left out, and each patch row ends with a
 * newline token. Pure.
 */
import type { Size } from "./image-size.ts";
import { type PixelImage, type ResampleFilter, resample } from "./resample.ts";

export interface TileLayout {
  /** Supported resolutions, in whole tiles. */
  readonly pinpoints: readonly Size[];
  /** Side of a tile before its own processing. */
  readonly tileSize: number;
  /** Size of the whole image as one tile. */
  readonly whole: Size;
  /** Side of the square that becomes one visual token. */
  readonly patchSize: number;
  readonly filter: ResampleFilter;
}

/** Newline token: index of the last row of the feature table. */
export const END_OF_ROW = -1;

/** The whole image and its tiles. */
export function numTiles(image: Size, { pinpoints, tileSize }: TileLayout): number {
  const best = bestResolution(image, pinpoints);
  return 1 + (best.width / tileSize) * (best.height / tileSize);
}

/** The whole image first, then the tiles from left to right and from top to bottom. */
export function cutTiles(image: PixelImage, layout: TileLayout): readonly PixelImage[] {
  const { tileSize, whole, filter, pinpoints } = layout;
  const best = bestResolution(image, pinpoints);
  const fitted = fittedSize(image, best);
  const large = padAround(resample(image, fitted.width, fitted.height, filter), best);
  const tiles = [resample(image, whole.width, whole.height, filter)];
  for (let top = 0; top < best.height; top += tileSize) {
    for (let left = 0; left < best.width; left += tileSize) tiles.push(cutOut(large, left, top, tileSize));
  }
  return tiles;
}

export function patchesOfTile({ tileSize, patchSize }: TileLayout): number {
  return Math.floor(tileSize / patchSize) ** 2;
}

/** Patch indices, counted through all tiles of the image; see `END_OF_ROW`. */
export function tileOrder(image: Size, { pinpoints, tileSize, patchSize }: TileLayout): Int32Array {
  const best = bestResolution(image, pinpoints);
  const side = Math.floor(tileSize / patchSize);
  const numColumns = Math.floor(best.width / tileSize);
  const grid = { width: numColumns * side, height: Math.floor(best.height / tileSize) * side };
  const { left, top } = borderOf(image, grid);
  const [right, bottom] = [grid.width - left, grid.height - top];
  const out = new Int32Array(side * side + Math.max(0, bottom - top) * (Math.max(0, right - left) + 1));
  let at = 0;
  while (at < side * side) out[at] = at++;
  for (let y = top; y < bottom; y++) {
    const inTileY = (y % side) * side;
    const firstTile = 1 + Math.floor(y / side) * numColumns;
    for (let x = left; x < right; x++) {
      out[at++] = (firstTile + Math.floor(x / side)) * side * side + inTileY + (x % side);
    }
    out[at++] = END_OF_ROW;
  }
  return out;
}

/** The resolution that keeps most pixels of the image; among equals the one that wastes fewest of its own. */
export function bestResolution(image: Size, pinpoints: readonly Size[]): Size {
  const area = image.width * image.height;
  let best: Size = pinpoints[0] ?? image;
  let [mostKept, leastWasted] = [0, Number.POSITIVE_INFINITY];
  for (const point of pinpoints) {
    const scale = Math.min(point.width / image.width, point.height / image.height);
    const kept = Math.min(Math.trunc(image.width * scale) * Math.trunc(image.height * scale), area);
    const wasted = point.width * point.height - kept;
    if (kept < mostKept || (kept === mostKept && wasted >= leastWasted)) continue;
    [best, mostKept, leastWasted] = [point, kept, wasted];
  }
  return best;
}

/** As large as fits, with the same aspect ratio. */
function fittedSize({ width, height }: Size, target: Size): Size {
  const [byWidth, byHeight] = [target.width / width, target.height / height];
  return byWidth < byHeight
    ? { width: target.width, height: Math.min(Math.ceil(height * byWidth), target.height) }
    : { width: Math.min(Math.ceil(width * byHeight), target.width), height: target.height };
}

/** Padding patches on the left and above; the other side has as many. */
function borderOf({ width, height }: Size, grid: Size): { readonly left: number; readonly top: number } {
  if (width / height > grid.width / grid.height) {
    const shown = Math.trunc(rounded(height * (grid.width / width)));
    return { left: 0, top: Math.floor((grid.height - shown) / 2) };
  }
  const shown = Math.trunc(rounded(width * (grid.height / height)));
  return { left: Math.floor((grid.width - shown) / 2), top: 0 };
}

/** Rounded to seven places, against floating-point error in whole results. */
function rounded(value: number): number {
  return Number(value.toFixed(7));
}

function padAround(image: PixelImage, size: Size): PixelImage {
  if (image.width === size.width && image.height === size.height) return image;
  const { width, height, channels, data } = image;
  const out = new Uint8Array(size.width * size.height * channels);
  const [left, top] = [(size.width - width) >> 1, (size.height - height) >> 1];
  for (let y = 0; y < height; y++) {
    const row = data.subarray(y * width * channels, (y + 1) * width * channels);
    out.set(row, ((y + top) * size.width + left) * channels);
  }
  return { ...size, channels, data: out };
}

function cutOut({ width, channels, data }: PixelImage, left: number, top: number, side: number): PixelImage {
  const out = new Uint8Array(side * side * channels);
  for (let y = 0; y < side; y++) {
    const start = ((top + y) * width + left) * channels;
    out.set(data.subarray(start, start + side * channels), y * side * channels);
  }
  return { width: side, height: side, channels, data: out };
}
