/** The configurations of the models that serve one that sees: pictures and a question in, an answer out. Pure. */
import type { SeeingModel, SeeingTensor } from "./seeing-model.ts";

export interface SeeingPlaces {
  /** Width of the language model's rows. */
  readonly width: number;
  /** As their configurations name them: folders of processor, tokenizer and language model. */
  readonly modelDir: string;
  readonly tokenizerDir: string;
  readonly engineDir: string;
  readonly maxBatchSize: number;
  readonly isDecoupled: boolean;
}

/** Callers after those they call. */
export const SEEING_MODELS = [
  "image_preprocessing",
  "vision_encoder",
  "vlm_preprocessing",
  "vision_llm",
  "vlm_postprocessing",
  "vlm",
] as const;
type ModelName = (typeof SEEING_MODELS)[number];

/** A tensor of a configuration; `more` are its other fields. */
type Line = readonly [name: string, type: string, dims: string, more?: string];

const SCALAR = "reshape: { shape: [ ] }";
const OPTIONAL = `${SCALAR} optional: true`;
/** Inputs of the language model that clients may give, by their names in the ensemble. */
const CHOICES: readonly (readonly [input: string, name: string, type: string])[] = [
  ["temperature", "temperature", "FP32"],
  ["runtime_top_k", "top_k", "INT32"],
  ["runtime_top_p", "top_p", "FP32"],
  ["seed", "seed", "UINT64"],
];
const STREAM = ["streaming", "stream", "BOOL"] as const;
/** Outputs of the prompt, and the inputs of the language model that take them. */
const PROMPT: readonly (readonly [output: string, input: string, type: string, dims: string, more: string])[] = [
  ["INPUT_ID", "input_ids", "INT32", "-1", "allow_ragged_batch: true"],
  ["REQUEST_INPUT_LEN", "input_lengths", "INT32", "1", SCALAR],
  ["REQUEST_OUTPUT_LEN", "request_output_len", "INT32", "1", ""],
  ["OUT_END_ID", "end_id", "INT32", "1", OPTIONAL],
  ["PROMPT_EMBEDDING_TABLE", "prompt_embedding_table", "FP16", "-1, -1", "allow_ragged_batch: true optional: true"],
  ["PROMPT_VOCAB_SIZE", "prompt_vocab_size", "INT32", "1", OPTIONAL],
];
const POSITIONS = [
  "MROPE_POSITION_IDS",
  "mrope_position_ids",
  "INT32",
  "3, -1",
  "allow_ragged_batch: true optional: true",
] as const;

export function seeingConfigs(model: SeeingModel, places: SeeingPlaces): Readonly<Record<ModelName, string>> {
  return {
    image_preprocessing: imageConfig(model, places),
    vision_encoder: eyeConfig(model, places),
    vlm_preprocessing: promptConfig(model, places),
    vision_llm: llmConfig(model, places),
    vlm_postprocessing: answerConfig(places),
    vlm: ensembleConfig(model, places),
  };
}

function imageConfig({ pixels, made, imageParameters }: SeeingModel, { modelDir }: SeeingPlaces): string {
  return [
    head("Pictures (files, base64 or data URLs) to what the eye takes.", "image_preprocessing", "image", 0),
    tensors("input", [["IMAGE", "STRING", "-1"]]),
    tensors("output", [["pixel_values", "FP32", `-1, ${pixels}`], ...made.map(lineOf)]),
    parameters({ processor: modelDir, ...imageParameters }),
  ].join("");
}

function eyeConfig({ pixels, isBatching, numTokens, made }: SeeingModel, places: SeeingPlaces): string {
  const { maxBatchSize, width } = places;
  const inputs = made.flatMap(({ eye, type, dims }): Line[] => (eye === undefined ? [] : [[eye, type, dims]]));
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

function promptConfig(model: SeeingModel, { tokenizerDir, width }: SeeingPlaces): string {
  const taken = model.made.flatMap(({ prompt, type, dims }): Line[] =>
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

function llmConfig(model: SeeingModel, { engineDir, maxBatchSize, isDecoupled }: SeeingPlaces): string {
  return [
    head("The language model.", "vision_llm", "llm", maxBatchSize),
    tensors("input", [
      ...promptOutputs(model).map(([, input, type, dims, more]): Line => [input, type, dims, more]),
      ...choices(isDecoupled).map(([input, , type]): Line => [input, type, "1", OPTIONAL]),
    ]),
    tensors("output", [
      ["output_ids", "INT32", "-1, -1"],
      ["sequence_length", "INT32", "-1"],
    ]),
    isDecoupled ? "model_transaction_policy { decoupled: true }\n" : "",
    parameters({ gpt_model_path: engineDir, exclude_input_in_output: "true" }),
    model.hasPositions ? "instance_group [ { count: 1, kind: KIND_CPU } ]\n" : "",
  ].join("");
}

function answerConfig({ tokenizerDir, maxBatchSize }: SeeingPlaces): string {
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

function ensembleConfig(model: SeeingModel, { isDecoupled }: SeeingPlaces): string {
  const { made } = model;
  const wanted = choices(isDecoupled);
  const asked = wanted.map(([, name, type]): Line => [name, type, "1", "optional: true"]);
  const ofImage = made.map(({ name }): Pair => [name, `_${name}`]);
  const inner = (target: "eye" | "prompt"): Pair[] =>
    made.flatMap((each): Pair[] => (each[target] === undefined ? [] : [[each[target], `_${each.name}`]]));
  const prompt = promptOutputs(model);
  const steps = [
    step("image_preprocessing", [["IMAGE", "image"]], [["pixel_values", "_pixel_values"], ...ofImage]),
    step("vision_encoder", [["pixel_values", "_pixel_values"], ...inner("eye")], [["visual_tokens", "_visual_tokens"]]),
    step(
      "vlm_preprocessing",
      [
        ["QUERY", "text_input"],
        ["VISUAL_TOKENS", "_visual_tokens"],
        ...inner("prompt"),
        ["REQUEST_OUTPUT_LEN", "max_tokens"],
      ],
      prompt.map(([output, input]) => [output, `_${input}`]),
    ),
    step(
      "vision_llm",
      [...prompt.map(([, input]): Pair => [input, `_${input}`]), ...wanted.map(([input, name]): Pair => [input, name])],
      [
        ["output_ids", "_output_ids"],
        ["sequence_length", "_sequence_length"],
      ],
    ),
    step(
      "vlm_postprocessing",
      [
        ["TOKENS_BATCH", "_output_ids"],
        ["SEQUENCE_LENGTH", "_sequence_length"],
      ],
      [["OUTPUT", "text_output"]],
    ),
  ];
  return [
    `# Pictures and a question in, an answer out.\nname: "vlm"\nplatform: "ensemble"\n`,
    tensors("input", [
      ["image", "STRING", "-1"],
      ["text_input", "STRING", "1"],
      ["max_tokens", "INT32", "1"],
      ...asked,
    ]),
    tensors("output", [["text_output", "STRING", "-1"]]),
    `ensemble_scheduling {\n  step [\n${steps.join(",\n")}\n  ]\n}\n`,
  ].join("");
}

function promptOutputs({ hasPositions }: SeeingModel): typeof PROMPT {
  return hasPositions ? [...PROMPT, POSITIONS] : PROMPT;
}

function choices(isDecoupled: boolean): typeof CHOICES {
  return isDecoupled ? [...CHOICES, STREAM] : CHOICES;
}

function lineOf({ name, type, dims }: SeeingTensor): Line {
  return [name, type, dims];
}

function head(comment: string, name: ModelName, backend: string, maxBatchSize: number): string {
  const batching = maxBatchSize > 0 ? `max_batch_size: ${maxBatchSize}\n` : "";
  return `# ${comment}\nname: "${name}"\nbackend: "${backend}"\n${batching}`;
}

function tensors(kind: "input" | "output", lines: readonly Line[]): string {
  const texts = lines.map(([name, type, dims, more = ""]) => {
    const rest = more === "" ? "" : ` ${more}`;
    return `  { name: "${name}" data_type: TYPE_${type} dims: [ ${dims} ]${rest} }`;
  });
  return `${kind} [\n${texts.join(",\n")}\n]\n`;
}

/** JSON's escapes are among those of the format. */
function parameters(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([key, value]) => `parameters {\n  key: "${key}"\n  value: { string_value: ${JSON.stringify(value)} }\n}\n`)
    .join("");
}

type Pair = readonly [key: string, value: string];

function step(model: ModelName, inputs: readonly Pair[], outputs: readonly Pair[]): string {
  const map = (kind: string, pairs: readonly Pair[]): string[] =>
    pairs.map(([key, value]) => `      ${kind}_map { key: "${key}" value: "${value}" }`);
  const lines = [
    `      model_name: "${model}"`,
    "      model_version: -1",
    ...map("input", inputs),
    ...map("output", outputs),
  ];
  return `    {\n${lines.join("\n")}\n    }`;
}
