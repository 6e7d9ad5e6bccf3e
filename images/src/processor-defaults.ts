/** Defaults of transformers' image processors, for descriptions that omit fields. Data. */
import type { Json } from "./processor-fields.ts";

type Defaults = Readonly<Record<string, Json>>;

const BICUBIC = 3;
const BILINEAR = 2;
const OPENAI = {
  do_resize: true,
  resample: BICUBIC,
  do_normalize: true,
  image_mean: [0.48145466, 0.4578275, 0.40821073],
  image_std: [0.26862954, 0.26130258, 0.27577711],
} as const;
const CLIP = { ...OPENAI, size: { shortest_edge: 224 }, do_center_crop: true, crop_size: { height: 224, width: 224 } };
const HALVES = {
  do_resize: true,
  size: { height: 224, width: 224 },
  do_normalize: true,
  image_mean: [0.5, 0.5, 0.5],
  image_std: [0.5, 0.5, 0.5],
} as const;
const PINPOINTS = [
  [336, 672],
  [672, 336],
  [672, 672],
  [1008, 336],
  [336, 1008],
];

/** By class name without "ImageProcessor" or "FeatureExtractor". */
const BY_NAME: ReadonlyMap<string, Defaults> = new Map<string, Defaults>([
  ["CLIP", CLIP],
  ["Llava", CLIP],
  ["LlavaNext", { ...CLIP, image_grid_pinpoints: PINPOINTS }],
  ["Qwen2VL", OPENAI],
  ["Qwen2_5_VL", OPENAI],
  ["Siglip", { ...HALVES, resample: BICUBIC }],
  ["ViT", { ...HALVES, resample: BILINEAR }],
  ["Blip", { ...OPENAI, size: { height: 384, width: 384 } }],
]);

/** The fields of a description over the defaults of its processor. */
export function withDefaults(fields: ReadonlyMap<string, Json>, type: string): ReadonlyMap<string, Json> {
  const name = /^(.*?)(?:ImageProcessor|FeatureExtractor)/.exec(type)?.[1] ?? "";
  const defaults = BY_NAME.get(name);
  return defaults === undefined ? fields : new Map<string, Json>([...Object.entries(defaults), ...fields]);
}
