/** Models for tests of Ollama's fields: one that tells its inputs, two that give vectors, one to be loaded later, a broken one. */
import { fileURLToPath } from "node:url";

const TOKENIZER = fileURLToPath(new URL("../../examples/nereid-tiny/language_model", import.meta.url));
const OPTIONS: readonly (readonly [name: string, type: string])[] = [
  ["max_tokens", "INT32"],
  ["temperature", "FP32"],
  ["top_p", "FP32"],
  ["top_k", "INT32"],
  ["min_p", "FP32"],
  ["seed", "UINT64"],
  ["repetition_penalty", "FP32"],
  ["presence_penalty", "FP32"],
  ["frequency_penalty", "FP32"],
];

const tensor = (name: string, type: string, more = ""): string =>
  `{ name: "${name}" data_type: TYPE_${type} dims: [ 1 ]${more} }`;
const inputs = ["text_input", ...OPTIONS.map(([name]) => name)].map((name) =>
  name === "text_input"
    ? tensor(name, "STRING")
    : tensor(name, OPTIONS.find(([option]) => option === name)?.[1] ?? "", " optional: true"),
);

const VECTORS = (name: string, more: string): string => `name: "${name}"
backend: "typescript"
max_batch_size: 8
input [ ${tensor("text", "STRING")} ]
output [ { name: "embedding" data_type: TYPE_FP32 dims: [ 3 ] } ]
${more}`;
const VECTOR_MODEL = `
export function execute({ inputs }) {
  const texts = inputs.text.strings;
  return { embedding: { shape: [texts.length, 3], data: Float32Array.from(texts.flatMap((text) => [text.length, 4, 0])) } };
}
`;

export const TOLD_MODELS: Readonly<Record<string, string>> = {
  "told/config.pbtxt": `name: "told"
backend: "typescript"
max_batch_size: 0
input [ ${inputs.join(", ")} ]
output [ ${tensor("text_output", "STRING")} ]
parameters { key: "default_sampling" value: { string_value: "{\\"temperature\\": 1, \\"top_k\\": 0}" } }
`,
  "told/1/model.ts": `
export function execute({ inputs }) {
  const told = {};
  for (const [name, tensor] of Object.entries(inputs)) if (name !== "text_input") told[name] = Number(tensor.data[0]);
  return { text_output: [JSON.stringify(told)] };
}
`,
  "vectors/config.pbtxt": VECTORS("vectors", ""),
  "vectors/1/model.ts": VECTOR_MODEL,
  "tokens_of/config.pbtxt": VECTORS(
    "tokens_of",
    `parameters { key: "tokenizer_dir" value: { string_value: "${TOKENIZER}" } }
parameters { key: "max_model_len" value: { string_value: "12" } }
`,
  ),
  "tokens_of/1/model.ts": VECTOR_MODEL,
  "later/config.pbtxt": `name: "later"
backend: "typescript"
max_batch_size: 0
input [ ${tensor("text_input", "STRING")} ]
output [ ${tensor("text_output", "STRING")} ]
`,
  "later/1/model.ts": 'export const execute = () => ({ text_output: ["late"] });\n',
  "broken/config.pbtxt": `name: "broken"
backend: "typescript"
max_batch_size: 0
input [ ${tensor("text_input", "STRING")} ]
output [ ${tensor("text_output", "STRING")} ]
`,
  "broken/1/model.ts": 'throw new Error("this model does not load");\n',
};
