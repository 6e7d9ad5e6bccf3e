/**
 * Parses Hugging Face's `preprocessor_config.json` into processing steps. Fields with an unknown effect on pixels are
 * refused, never ignored. Source: transformers, image processors of CLIP, SigLIP, LLaVA-NeXT and Qwen2-VL. Pure.
 */
import { ServerError } from "@nereid/server/core/server-error";
import type { SizeRule } from "./image-size.ts";
import type { TileLayout } from "./image-tiles.ts";
import { withDefaults } from "./processor-defaults.ts";
import { type Json, ProcessorFields } from "./processor-fields.ts";
import type { ResampleFilter } from "./resample.ts";
import { readTiles } from "./tile-config.ts";

export interface ImageProcessing {
  readonly resize: { readonly rule: SizeRule; readonly filter: ResampleFilter } | undefined;
  /** Centre crop; pixels outside of the image are black. */
  readonly crop: { readonly width: number; readonly height: number } | undefined;
  /** Padding with black at the right and bottom, up to this size. */
  readonly pad: { readonly red: number; readonly green: number; readonly blue: number } | undefined;
  /** Value of each byte per RGB channel: rescaled and normalised. */
  readonly values: readonly [Float32Array, Float32Array, Float32Array];
  readonly isBgr: boolean;
  readonly layout: "channels_first" | "channels_last";
  /** Set: the result is rows of patches, as for Qwen2-VL. */
  readonly patches: PatchLayout | undefined;
  /** Set: the result is several tiles, each processed separately. */
  readonly tiles: TileLayout | undefined;
}

export interface PatchLayout {
  readonly patchSize: number;
  /** Merge size: patches of a square of this side follow each other and become one visual token. */
  readonly mergeSize: number;
  /** Number of frames per image (temporal_patch_size). */
  readonly temporalSize: number;
}

/** Pillow's resampling codes. */
const FILTERS: readonly ResampleFilter[] = ["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"];
const BYTE_VALUES = 256;
/** Processors for which a single number as size means the shorter side. */
const SHORTEST_EDGE_PROCESSORS =
  /^(?:CLIP|ChineseCLIP|LlavaNext|Llava|MobileViT|Bit|LeViT|Poolformer|MobileNetV\d|DPTSquare)/;
const TILE_PROCESSOR = /^LlavaNext(?!Video)/;
const PATCH_PROCESSOR = /^Qwen2(?:_5)?_?VL/;
/** Options that change pixels in unsupported ways when true. */
const UNKNOWN_STEPS = [
  "do_image_splitting",
  "do_thumbnail",
  "do_align_long_axis",
  "do_reduce_labels",
  "do_normalize_range",
  "do_pan_and_scan",
  "do_color_quantize",
];
const DEFAULT_SCALE = 1 / 255;
const QWEN_MIN_PIXELS = 56 * 56;
const QWEN_MAX_PIXELS = 28 * 28 * 1280;

/** `where` names the file or model for messages. @throws ServerError */
export function parseProcessor(given: ReadonlyMap<string, Json>, where: string): ImageProcessing {
  const type = String(given.get("image_processor_type") ?? given.get("feature_extractor_type") ?? "");
  const fields = withDefaults(given, type);
  const reader = new ProcessorFields(fields, where);
  for (const step of UNKNOWN_STEPS) {
    if (reader.get(step) === true) throw new ServerError("unsupported", `${where}: '${step}' is not supported`);
  }
  const hasTiles = reader.get("image_grid_pinpoints") !== undefined && reader.flag("do_tiles", true);
  if (hasTiles && !TILE_PROCESSOR.test(type)) {
    const text = `${where}: 'image_grid_pinpoints' (several tiles of one image) is supported for LlavaNextImageProcessor, not for '${type}'; set 'do_tiles' to false to give each image as one tile`;
    throw new ServerError("unsupported", text);
  }
  const patches = PATCH_PROCESSOR.test(type) ? readPatches(reader) : undefined;
  const mean = reader.channels("image_mean", [0, 0, 0]);
  const resize = reader.flag("do_resize", fields.has("size")) ? readResize(reader, type, patches) : undefined;
  return {
    resize,
    crop: reader.flag("do_center_crop", false) ? readCrop(reader) : undefined,
    // LLaVA-NeXT pads lists of tiles to equal length, which is not needed here.
    pad: reader.flag("do_pad", false) && /^Llava(?!Next)/.test(type) ? padColor(mean) : undefined,
    values: readValues(reader, mean),
    isBgr: reader.flag("do_flip_channel_order", false),
    layout: reader.get("data_format") === "channels_last" ? "channels_last" : "channels_first",
    patches,
    tiles: hasTiles ? readTiles(reader, resize?.filter ?? "bicubic") : undefined,
  };
}

/** The mean as a color for padding to squares, so that padding is near 0 after normalisation. */
function padColor([red = 0, green = 0, blue = 0]: readonly number[]): ImageProcessing["pad"] {
  const byte = (value: number): number => Math.trunc(value * (BYTE_VALUES - 1));
  return { red: byte(red), green: byte(green), blue: byte(blue) };
}

function readResize(
  reader: ProcessorFields,
  type: string,
  patches: PatchLayout | undefined,
): ImageProcessing["resize"] {
  const number = reader.number("resample", 2, 0);
  const filter = FILTERS[number];
  if (filter === undefined) throw reader.wrong("resample", `a whole number from 0 to ${FILTERS.length - 1}`);
  return { rule: patches === undefined ? readSize(reader, type) : readPixelBounds(reader, patches), filter };
}

function readSize(reader: ProcessorFields, type: string): SizeRule {
  const names = SHORTEST_EDGE_PROCESSORS.test(type) ? ["shortest_edge"] : ["height", "width"];
  const size = reader.lengths("size", names);
  const [width, height, shortest, longest] = ["width", "height", "shortest_edge", "longest_edge"].map((name) =>
    size?.get(name),
  );
  const [maxWidth, maxHeight] = [size?.get("max_width"), size?.get("max_height")];
  if (width !== undefined && height !== undefined) return { kind: "exact", width, height };
  if (shortest !== undefined) return { kind: "shortest", shortest, longest };
  if (longest !== undefined) return { kind: "longest", longest };
  if (maxWidth !== undefined && maxHeight !== undefined) return { kind: "within", width: maxWidth, height: maxHeight };
  throw reader.wrong("size", "height and width, shortest_edge, longest_edge, or max_height and max_width");
}

function readPixelBounds(reader: ProcessorFields, { patchSize, mergeSize }: PatchLayout): SizeRule {
  const size = reader.lengths("size", []);
  const min = reader.number("min_pixels", size?.get("shortest_edge") ?? QWEN_MIN_PIXELS, 1);
  const max = reader.number("max_pixels", size?.get("longest_edge") ?? QWEN_MAX_PIXELS, min);
  return { kind: "pixels", min, max, factor: patchSize * mergeSize };
}

function readPatches(reader: ProcessorFields): PatchLayout {
  return {
    patchSize: reader.number("patch_size", 14, 1),
    mergeSize: reader.number("merge_size", 2, 1),
    temporalSize: reader.number("temporal_patch_size", 2, 1),
  };
}

function readCrop(reader: ProcessorFields): ImageProcessing["crop"] {
  const size = reader.lengths("crop_size", ["height", "width"]);
  const [width, height] = [size?.get("width"), size?.get("height")];
  if (width === undefined || height === undefined) throw reader.wrong("crop_size", "height and width");
  return { width, height };
}

/** FP32 after the scale, as NumPy computes it. */
function readValues(reader: ProcessorFields, mean: readonly number[]): ImageProcessing["values"] {
  const scale = reader.flag("do_rescale", true) ? reader.number("rescale_factor", DEFAULT_SCALE) : 1;
  const offset = reader.get("offset") === true && reader.flag("do_rescale", true) ? 1 : 0;
  const isNormalized = reader.flag("do_normalize", reader.get("image_mean") !== undefined);
  const std = reader.channels("image_std", [1, 1, 1]);
  if (isNormalized && std.includes(0)) throw reader.wrong("image_std", "three numbers other than 0");
  const table = (channel: number): Float32Array =>
    Float32Array.from({ length: BYTE_VALUES }, (_, byte) => {
      const scaled = Math.fround(byte * scale - offset);
      if (!isNormalized) return scaled;
      return Math.fround(scaled - Math.fround(mean[channel] ?? 0)) / Math.fround(std[channel] ?? 1);
    });
  return [table(0), table(1), table(2)];
}
