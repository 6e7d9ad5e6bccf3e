/**
 * Tile settings of a processor's description: tile size and supported resolutions (LLaVA-NeXT, `image_grid_pinpoints`).
 * Pure.
 */
import type { Size } from "./image-size.ts";
import type { TileLayout } from "./image-tiles.ts";
import type { ProcessorFields } from "./processor-fields.ts";
import type { ResampleFilter } from "./resample.ts";

const MAX_PINPOINTS = 256;
const MAX_TILES_A_SIDE = 16;
/** Patch size of CLIP ViT-L/14, which all LLaVA models use; descriptions do not state it. */
const CLIP_PATCH = 14;

export function readTiles(reader: ProcessorFields, filter: ResampleFilter): TileLayout {
  const size = reader.lengths("size", ["shortest_edge"]);
  const crop = reader.lengths("crop_size", ["height", "width"]);
  const [width, height] = [size?.get("width"), size?.get("height")];
  const tileSize = crop?.get("height") ?? height ?? size?.get("shortest_edge");
  if (tileSize === undefined) throw reader.wrong("size", "shortest_edge, or height and width");
  const shortest = size?.get("shortest_edge") ?? tileSize;
  const pinpoints = readPinpoints(reader, tileSize);
  const patchSize = reader.number("patch_size", CLIP_PATCH, 1);
  return { pinpoints, tileSize, whole: { width: width ?? shortest, height: height ?? shortest }, patchSize, filter };
}

/** Pairs of height and width. */
function readPinpoints(reader: ProcessorFields, tileSize: number): readonly Size[] {
  const key = "image_grid_pinpoints";
  const expected = `1 to ${MAX_PINPOINTS} pairs of height and width, multiples of the tile's ${tileSize} of at most ${MAX_TILES_A_SIDE}`;
  const pairs = reader.get(key);
  if (!Array.isArray(pairs) || pairs.length === 0 || pairs.length > MAX_PINPOINTS) throw reader.wrong(key, expected);
  return pairs.map((pair: unknown) => {
    const [height, width] = Array.isArray(pair) ? (pair as unknown[]) : [];
    const fits = (side: unknown): side is number => {
      const count = Number(side) / tileSize;
      return typeof side === "number" && Number.isInteger(count) && count >= 1 && count <= MAX_TILES_A_SIDE;
    };
    if (!fits(height) || !fits(width)) throw reader.wrong(key, expected);
    return { width, height };
  });
}
