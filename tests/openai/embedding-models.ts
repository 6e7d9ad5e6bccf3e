/** Models that give numbers for texts: the examples' text encoder, and scripts for pairs and classes. */
import { fileURLToPath } from "node:url";
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";

const VISION = fileURLToPath(new URL("../../examples/vision_repository/", import.meta.url));
const LANGUAGE_MODEL = fileURLToPath(new URL("../../examples/nereid-tiny/language_model", import.meta.url));

/** Words that both texts have. */
const PAIRS = `
export function execute({ inputs }) {
  const words = (text) => new Set(text.toLowerCase().split(/\\W+/));
  const score = inputs.text.strings.map((text, i) => {
    const document = words(inputs.text_pair.strings[i]);
    return [...words(text)].filter((word) => document.has(word)).length;
  });
  return { score };
}
`;

/** Logits of "short" and "long". */
const CLASSES = `
export function execute({ inputs }) {
  return { logits: inputs.text.strings.flatMap((text) => [4 - text.length, text.length - 4]) };
}
`;

const config = (name: string, inputs: readonly string[], output: string): string => `
name: "${name}"
backend: "typescript"
max_batch_size: 4
input [ ${inputs.map((input) => `{ name: "${input}" data_type: TYPE_STRING dims: [ 1 ] }`).join(", ")} ]
output [ ${output} ]
`;

/** `caption_encoder` needs `text_encoder` of the examples beside it. */
export async function createEmbeddingModels(readFile: (path: string) => string): Promise<ModelRepository> {
  const tokens = readFile(`${VISION}caption_tokens/config.pbtxt`).replace(
    "../../nereid-tiny/language_model",
    LANGUAGE_MODEL,
  );
  return createModelRepository({
    copies: [`${VISION}caption_encoder`],
    files: {
      "caption_tokens/config.pbtxt": tokens,
      "pairs/config.pbtxt": config(
        "pairs",
        ["text", "text_pair"],
        '{ name: "score" data_type: TYPE_FP32 dims: [ 1 ] }',
      ),
      "pairs/1/model.ts": PAIRS,
      "classes/config.pbtxt": config(
        "classes",
        ["text"],
        '{ name: "logits" data_type: TYPE_FP32 dims: [ 2 ] label_filename: "labels.txt" }',
      ),
      "classes/labels.txt": "short\nlong\n",
      "classes/1/model.ts": CLASSES,
    },
  });
}
