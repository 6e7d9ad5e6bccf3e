/** Models under the names that the tests of NVIDIA's OpenAI front end ask for. */
import { execFile } from "node:child_process";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { EXAMPLES } from "../support/model-repository.ts";

const TINY = fileURLToPath(new URL("../../examples/nereid-tiny", import.meta.url));
const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const RELATIVE_TINY = /\.\.\/\.\.\/nereid-tiny/g;
/** The model of their vLLM runs. */
export const VLLM_MODEL = "llama-3.1-8b-instruct";
const TENSORRT_MODELS = ["preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"];

/** nereid-tiny in place of Llama 3.1. */
export async function writeVllmRepository(folder: string): Promise<void> {
  await copyExample("tensorrt_llm", join(folder, VLLM_MODEL));
}

/** The pipeline of the examples, which has the names of TensorRT-LLM's. */
export async function writeTensorRtRepository(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  for (const name of TENSORRT_MODELS) await copyExample(name, join(folder, name));
}

async function copyExample(name: string, folder: string): Promise<void> {
  await cp(join(EXAMPLES, name), folder, { recursive: true });
  const config = await readFile(join(folder, "config.pbtxt"), "utf8");
  const own = config.replace(/^name: .*$/m, `name: "${folder.split("/").at(-1)}"`).replaceAll(RELATIVE_TINY, TINY);
  await writeFile(join(folder, "config.pbtxt"), own);
}

const EMBEDDINGS = "all-MiniLM-L6-v2";
const tensor = (name: string, type: string, dims: string): string =>
  `{ name: "${name}" data_type: TYPE_${type} dims: [ ${dims} ] }`;
const TOKEN_TENSORS = ["input_ids", "attention_mask", "token_type_ids"];

/** all-MiniLM-L6-v2 from its Hugging Face folder: the tokenizer, and the encoder as ONNX. */
export async function writeEmbeddingRepository(folder: string, weights: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  const output = join(folder, "encoder", "1");
  await promisify(execFile)(process.execPath, [NEREID, "onnx", "export", "--model", weights, "--output", output]);
  await writeModel(folder, "encoder", 'platform: "onnxruntime_onnx"');
  const tokens = TOKEN_TENSORS.map((name) => tensor(name, "INT64", "-1")).join(", ");
  const tokenizer = `backend: "tokenizer"
input [ ${tensor("TEXT", "STRING", "1")} ]
output [ ${tokens} ]
parameters { key: "tokenizer_dir" value: { string_value: "${weights}" } }`;
  await writeModel(folder, "tokens", tokenizer);
  const ensemble = `platform: "ensemble"
input [ ${tensor("TEXT", "STRING", "1")} ]
output [ ${tensor("sentence_embedding", "FP32", "384")} ]
ensemble_scheduling {
  step [
    { model_name: "tokens" model_version: -1 input_map { key: "TEXT" value: "TEXT" } ${mapsOf("output_map")} },
    { model_name: "encoder" model_version: -1 ${mapsOf("input_map")}
      output_map { key: "sentence_embedding" value: "sentence_embedding" } }
  ]
}`;
  await writeModel(folder, EMBEDDINGS, ensemble);
}

function mapsOf(map: string): string {
  return TOKEN_TENSORS.map((name) => `${map} { key: "${name}" value: "_${name}" }`).join(" ");
}

async function writeModel(folder: string, name: string, config: string): Promise<void> {
  await mkdir(join(folder, name, "1"), { recursive: true });
  await writeFile(join(folder, name, "config.pbtxt"), `name: "${name}"\nmax_batch_size: 8\n${config}\n`);
}

/** Calls the tool that it has to, or answers where a tool has answered. No small model knows where Dallas lies. */
const WEATHER_MODEL = `
const PLACE = { city: "Dallas", state: "TX", unit: "fahrenheit" };

export async function* execute({ inputs }) {
  const messages = JSON.parse(inputs.messages.strings[0]);
  const choice = inputs.tool_choice === undefined ? "auto" : JSON.parse(inputs.tool_choice.strings[0]);
  const forecast = choice?.function?.name === "get_n_day_weather_forecast";
  const call = forecast
    ? { name: "get_n_day_weather_forecast", parameters: { ...PLACE, num_days: 3 } }
    : { name: "get_current_weather", parameters: PLACE };
  const answer = messages.at(-1).role === "tool" ? "It is 98 degrees in Dallas." : JSON.stringify(call);
  for (let at = 0; at < answer.length; at += 4) yield { text_output: [answer.slice(at, at + 4)] };
}
`;

const text = (name: string, rest: string): string => `{ name: "${name}" data_type: TYPE_STRING dims: [ 1 ]${rest} }`;

const WEATHER_CONFIG = `
name: "${VLLM_MODEL}"
backend: "typescript"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [
  ${["text_input", "messages"].map((name) => text(name, "")).join(",\n  ")},
  ${["tool_choice", "guided_decoding_guide_type", "guided_decoding_guide"].map((name) => text(name, " optional: true")).join(",\n  ")}
]
output [ ${text("text_output", "")} ]
parameters { key: "tool_format" value: { string_value: "llama3_json" } }
`;

/** A model that follows a script, for the tests of tool calls. */
export async function writeToolRepository(folder: string): Promise<void> {
  await mkdir(join(folder, VLLM_MODEL, "1"), { recursive: true });
  await writeFile(join(folder, VLLM_MODEL, "config.pbtxt"), WEATHER_CONFIG);
  await writeFile(join(folder, VLLM_MODEL, "1", "model.ts"), WEATHER_MODEL);
}
