/** Configurations of the models that serve a vision-language model: images and a question in, an answer out. Pure. */
import { head, parameters, type TensorLine, tensors } from "./config-text.ts";
import { ensembleConfig } from "./vision-ensemble.ts";
import type { VisionModel, VisionTensor } from "./vision-model.ts";
import { choices, OPTIONAL, promptOutputs, type VisionModelName } from "./vision-names.ts";

export interface VisionPaths {
  /** Hidden size of the language model. */
  readonly width: number;
  /** As their configurations name them: folders of processor, tokenizer and language model. */
  readonly modelDir: string;
  readonly tokenizerDir: string;
  readonly engineDir: string;
  readonly maxBatchSize: number;
  readonly isDecoupled: boolean;
}

export function visionConfigs(model: VisionModel, places: VisionPaths): Readonly<Record<VisionModelName, string>> {
  return {
    image_preprocessing: imageConfig(model, places),
    vision_encoder: visionEncoderConfig(model, places),
    vlm_preprocessing: promptConfig(model, places),
    vision_llm: llmConfig(model, places),
    vlm_postprocessing: answerConfig(places),
    vlm: ensembleConfig(model, places.isDecoupled),
  };
}

function imageConfig({ pixels, made, imageParameters }: VisionModel, { modelDir }: VisionPaths): string {
  return [
    head("Images (files, base64 or data URLs) to the inputs of the vision encoder.", "image_preprocessing", "image", 0),
    tensors("input", [["IMAGE", "STRING", "-1"]]),
    tensors("output", [["pixel_values", "FP32", `-1, ${pixels}`], ...made.map(lineOf)]),
    parameters({ processor: modelDir, ...imageParameters }),
  ].join("");
}

function visionEncoderConfig({ pixels, isBatching, numTokens, made }: VisionModel, places: VisionPaths): string {
  const { maxBatchSize, width } = places;
  const inputs = made.flatMap(({ encoder, type, dims }): TensorLine[] =>
    encoder === undefined ? [] : [[encoder, type, dims]],
  );
  return [
    head(
      "Pixels to visual tokens, as wide as rows of the language model.",
      "vision_encoder",
      "onnxruntime",
      isBatching ? maxBatchSize : 0,
    ),
    tensors("input", [["pixel_values", "FP32", isBatching ? pixels : `-1, ${pixels}`], ...inputs]),
    tensors("output", [["visual_tokens", "FP32", `${numTokens ?? -1}, ${width}`]]),
    isBatching ? "dynamic_batching { }\n" : "",
  ].join("");
}

function promptConfig(model: VisionModel, { tokenizerDir, width }: VisionPaths): string {
  const taken = model.made.flatMap(({ prompt, type, dims }): TensorLine[] =>
    prompt === undefined ? [] : [[prompt, type, dims]],
  );
  return [
    head(
      "A question and visual tokens to ids and the table that the language model takes.",
      "vlm_preprocessing",
      "tokenizer",
      0,
    ),
    tensors("input", [
      ["QUERY", "STRING", "1"],
      ["VISUAL_TOKENS", "FP32", `${model.numTokens === undefined ? "" : "-1, "}-1, ${width}`],
      ...taken,
      ["REQUEST_OUTPUT_LEN", "INT32", "1"],
    ]),
    tensors(
      "output",
      promptOutputs(model).map(([output, , type, dims]) => [output, type, dims]),
    ),
    parameters({ tokenizer_dir: tokenizerDir, ...model.promptParameters }),
  ].join("");
}

function llmConfig(model: VisionModel, { engineDir, maxBatchSize, isDecoupled }: VisionPaths): string {
  return [
    head("The language model.", "vision_llm", "llm", maxBatchSize),
    tensors("input", [
      ...promptOutputs(model).map(([, input, type, dims, more]): TensorLine => [input, type, dims, more]),
      ...choices(isDecoupled).map(([input, , type]): TensorLine => [input, type, "1", OPTIONAL]),
    ]),
    tensors("output", [
      ["output_ids", "INT32", "-1, -1"],
      ["sequence_length", "INT32", "-1"],
    ]),
    isDecoupled ? "model_transaction_policy { decoupled: true }\n" : "",
    parameters({ gpt_model_path: engineDir, exclude_input_in_output: "true" }),
  ].join("");
}

function answerConfig({ tokenizerDir, maxBatchSize }: VisionPaths): string {
  return [
    head(
      "Ids to text. One instance: the chunks of a stream are decoded in their order.",
      "vlm_postprocessing",
      "tokenizer",
      maxBatchSize,
    ),
    tensors("input", [
      ["TOKENS_BATCH", "INT32", "-1, -1"],
      ["SEQUENCE_LENGTH", "INT32", "-1"],
    ]),
    tensors("output", [["OUTPUT", "STRING", "-1"]]),
    parameters({ tokenizer_dir: tokenizerDir }),
    "instance_group [ { count: 1, kind: KIND_CPU } ]\n",
  ].join("");
}

function lineOf({ name, type, dims }: VisionTensor): TensorLine {
  return [name, type, dims];
}
