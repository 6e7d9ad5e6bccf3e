/**
 * Image input of a vision-language model, from the config.json of its folder: inputs of the vision encoder, and prompt
 * text. Pure.
 */

import { CLIP_VISION_DEFAULTS } from "@nereid/onnx-tools/clip-graph";
import { QWEN_VISION_DEFAULTS } from "@nereid/onnx-tools/qwen-vision-graph";
import { ToolError } from "@nereid/server/files/tool-error";
import type { HfConfigFiles } from "@nereid/server/formats/hf/config";
import { HfFields } from "@nereid/server/formats/hf/config-fields";

/** A tensor between models of a repository; `dims` as a configuration has them, without a batch dimension. */
export interface VisionTensor {
  readonly name: string;
  readonly type: "FP32" | "INT32" | "INT64";
  readonly dims: string;
}

export interface VisionModel {
  /** Dimensions of one element of `pixel_values`: an image, a tile, a patch. */
  readonly pixels: string;
  /** Each image is an element of its own, so that the vision encoder can batch them. */
  readonly isBatching: boolean;
  /** Rows of `visual_tokens` per image; undefined: they differ. */
  readonly numTokens: number | undefined;
  /** Other outputs of the image backend, and the inputs of vision encoder or prompt that take them. */
  readonly made: readonly (VisionTensor & { readonly encoder?: string; readonly prompt?: string })[];
  /** Parameters of the image model and of the prompt. */
  readonly imageParameters: Readonly<Record<string, string>>;
  readonly promptParameters: Readonly<Record<string, string>>;
  /** Prompts state the position of each token (multimodal RoPE). */
  readonly hasPositions: boolean;
}

const SIZE = { min: 1, max: 1 << 20 } as const;
const LENGTHS = { name: "visual_lengths", type: "INT32", dims: "-1", prompt: "VISUAL_LENGTHS" } as const;
/** A size that needs some hundred megabytes in a vision encoder; files allow sixteen times as much. */
const QWEN_MAX_PIXELS = "786432";
const QWEN_PROMPT =
  "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n{images}{text}<|im_end|>\n<|im_start|>assistant\n";

const KINDS: ReadonlyMap<unknown, (config: HfFields) => VisionModel> = new Map([
  ["llava", llava],
  ["llava_next", llavaNext],
  ["qwen2_vl", qwen],
  ["qwen2_5_vl", qwen],
]);

/** @throws ToolError for models without vision, or unknown ones */
export function visionModel({ config: json, at }: HfConfigFiles): VisionModel {
  const config = new HfFields(json, at.config);
  const kind = config.get("model_type");
  const read = KINDS.get(kind);
  if (read !== undefined) return read(config);
  throw new ToolError(
    `${at.config}: model_type: expected ${[...KINDS.keys()].join(", ")}, got ${JSON.stringify(kind)}`,
    {
      fix: "Leave --images out for text-only models",
    },
  );
}

function llava(config: HfFields): VisionModel {
  const { image, patch } = clipSizes(config);
  const isFull = config.get("vision_feature_select_strategy") === "full";
  return {
    pixels: `3, ${image}, ${image}`,
    isBatching: true,
    numTokens: Math.floor(image / patch) ** 2 + (isFull ? 1 : 0),
    made: [],
    imageParameters: {},
    promptParameters: { prompt_template: llavaPrompt(config) },
    hasPositions: false,
  };
}

function llavaNext(config: HfFields): VisionModel {
  const { patch } = clipSizes(config);
  return {
    ...llava(config),
    isBatching: false,
    numTokens: undefined,
    made: [{ name: "visual_order", type: "INT64", dims: "-1", encoder: "visual_order" }, LENGTHS],
    imageParameters: { patch_size: String(patch) },
  };
}

function clipSizes(config: HfFields): { readonly image: number; readonly patch: number } {
  const vision = config.section("vision_config", { defaults: CLIP_VISION_DEFAULTS });
  return { image: vision?.int("image_size", SIZE) ?? 336, patch: vision?.int("patch_size", SIZE) ?? 14 };
}

/** Prompt format of Vicuna, or of Mistral. */
function llavaPrompt(config: HfFields): string {
  const isMistral = config.section("text_config")?.get("model_type") === "mistral";
  return isMistral ? "[INST] {images}\n{text} [/INST]" : "USER: {images}\n{text} ASSISTANT:";
}

function qwen(config: HfFields): VisionModel {
  const vision = config.section("vision_config", { defaults: QWEN_VISION_DEFAULTS });
  const size = (name: string): number => vision?.int(name, SIZE) ?? Number(QWEN_VISION_DEFAULTS[name]);
  return {
    pixels: String(size("in_channels") * size("temporal_patch_size") * size("patch_size") ** 2),
    isBatching: false,
    numTokens: undefined,
    made: [
      { name: "patch_positions", type: "INT64", dims: "-1, 3", encoder: "patch_positions" },
      { name: "image_grid_thw", type: "INT64", dims: "-1, 3", prompt: "IMAGE_GRID_THW" },
      LENGTHS,
    ],
    imageParameters: { max_pixels: QWEN_MAX_PIXELS },
    promptParameters: {
      image_token: "<|image_pad|>",
      image_template: "<|vision_start|><|image_pad|><|vision_end|>",
      prompt_template: QWEN_PROMPT,
    },
    hasPositions: true,
  };
}
