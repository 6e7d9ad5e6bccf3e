/**
 * Which tensors of a model take text and give numbers for it: a vector, scores of classes, or one score for a pair of
 * texts. Pure.
 */
import type { ServedModel, TensorMetadata } from "../core/model-server.ts";

type Tensors = Pick<ServedModel, "inputs" | "outputs" | "config">;

export interface EmbeddingSignature {
  /** `embeddings`: a vector a text. `score`: one number for a pair of texts. `classify`: a number a class. */
  readonly kind: "embeddings" | "score" | "classify";
  readonly text: TensorMetadata;
  /** The second text of a pair. */
  readonly pair: TensorMetadata | undefined;
  readonly output: TensorMetadata;
  readonly isBatching: boolean;
}

const TEXT_NAMES: readonly string[] = ["text", "text_input", "TEXT", "query", "QUERY", "input", "caption", "sentence"];
const PAIR_NAMES: readonly string[] = ["text_pair", "document", "passage", "DOCUMENT", "TEXT_PAIR"];
const OUTPUT_NAMES: readonly string[] = [
  "embedding",
  "embeddings",
  "sentence_embedding",
  "text_embeds",
  "pooled",
  "vector",
  "logits",
  "score",
  "scores",
  "probabilities",
];

/** TYPE_STRING carries files too: names of inputs that are no text. */
const MEDIA_NAME = /image|img|picture|photo|pixel|frame|video|audio|speech|sound/i;
const IMAGE_BACKEND = "image";

/** Undefined: the model is none of these. */
export function embeddingSignature({ inputs, outputs, config }: Tensors): EmbeddingSignature | undefined {
  if (config.backend === IMAGE_BACKEND) return undefined;
  const required = config.input.filter(({ optional }) => !optional).map(({ name }) => name);
  const pair = textTensor(PAIR_NAMES, inputs);
  const text = textTensor(TEXT_NAMES, inputs) ?? onlyText(inputs, required, pair);
  const hasTextOutput = [...outputs.values()].some(({ datatype }) => datatype === "BYTES");
  if (text === undefined || hasTextOutput) return undefined;
  if (required.some((name) => name !== text.name && name !== pair?.name)) return undefined;
  const output = numbersTensor(outputs);
  if (output === undefined || !isRowPerText(output.name, config)) return undefined;
  const isLabelled = config.output.some(({ name, label_filename: file }) => name === output.name && file !== "");
  const kind = isLabelled ? "classify" : pair === undefined ? "embeddings" : "score";
  return { kind, text, pair, output, isBatching: config.max_batch_size > 0 };
}

function textTensor(
  names: readonly string[],
  tensors: ReadonlyMap<string, TensorMetadata>,
): TensorMetadata | undefined {
  return names.map((name) => tensors.get(name)).find((tensor) => tensor?.datatype === "BYTES");
}

function onlyText(
  inputs: ReadonlyMap<string, TensorMetadata>,
  required: readonly string[],
  pair: TensorMetadata | undefined,
): TensorMetadata | undefined {
  const texts = [...inputs.values()].filter(
    ({ name, datatype }) =>
      datatype === "BYTES" && required.includes(name) && name !== pair?.name && !MEDIA_NAME.test(name),
  );
  return texts.length === 1 ? texts[0] : undefined;
}

/** One dimension for each text; more are pixels, or a vector for each token. */
function isRowPerText(output: string, config: Tensors["config"]): boolean {
  const dims = config.output.find(({ name }) => name === output)?.dims ?? [];
  const ofText = config.max_batch_size > 0 ? dims : dims.slice(1);
  return ofText.filter((dim) => Number(dim) !== 1).length <= 1;
}

function numbersTensor(outputs: ReadonlyMap<string, TensorMetadata>): TensorMetadata | undefined {
  const isNumbers = (tensor: TensorMetadata | undefined): boolean => /^(FP|BF)/.test(tensor?.datatype ?? "");
  const named = OUTPUT_NAMES.map((name) => outputs.get(name)).find(isNumbers);
  if (named !== undefined) return named;
  const all = [...outputs.values()].filter(isNumbers);
  return all.length === 1 ? all[0] : undefined;
}
