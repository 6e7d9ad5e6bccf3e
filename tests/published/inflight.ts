/**
 * preprocessing, postprocessing and tensorrt_llm_bls in Python as TensorRT-LLM's backend publishes them, around this
 * server's own `tensorrt_llm`. The folder `inflight_batcher_llm` of one version is copied and filled in as its guides
 * say; nothing else is changed. Their answers are compared with this server's own models of the same names, and the
 * times of both are printed.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fillTemplate } from "../../offline/src/template/fill-template.ts";
import { createPipeline, LANGUAGE_MODEL } from "../support/llm-pipeline.ts";
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { type Outcome, outcomeOf, postJson, timed } from "./outcome.ts";

const MODELS = ["ensemble", "preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"];
const PROMPT = "The quick brown fox jumps";
const NUM_TOKENS = 12;
const NUM_TIMED = 50;
/** Placeholders that the users' notes leave stay unfilled. */
const VALUES =
  `tokenizer_dir:${LANGUAGE_MODEL},tokenizer_type:auto,engine_dir:${LANGUAGE_MODEL},triton_max_batch_size:4,` +
  "preprocessing_instance_count:1,postprocessing_instance_count:1,bls_instance_count:1,triton_backend:tensorrtllm," +
  "max_queue_delay_microseconds:0,max_queue_size:0,batching_strategy:inflight_fused_batching,logits_datatype:TYPE_FP32," +
  "encoder_input_features_data_type:TYPE_FP16,tensorrt_llm_model_name:tensorrt_llm";

/** Answers of this server's own models, for comparison. */
export async function askOwn(python: string): Promise<[whole: Answers, decoupled: Answers]> {
  const ask = async (decoupled: boolean): Promise<Answers> => {
    await using repository = await ownModels(decoupled);
    return await askAll(repository, python, decoupled);
  };
  return [await ask(false), await ask(true)];
}

export async function checkInflight(
  label: string,
  folder: string,
  python: string,
  own: [whole: Answers, decoupled: Answers],
): Promise<Outcome[]> {
  const check = (decoupled: boolean): Promise<Outcome> =>
    outcomeOf(`inflight_batcher_llm ${label}${decoupled ? ", decoupled" : ""}`, async () => {
      await using repository = await published(folder, decoupled);
      const found = await askAll(repository, python, decoupled);
      const wanted = own[decoupled ? 1 : 0];
      compare(wanted, found);
      return {
        note: Object.entries(found.ms)
          .map(([model, ms]) => `${model} ${ms} ms a request, ours ${wanted.ms[model]}`)
          .join("; "),
      };
    });
  return [await check(false), await check(true)];
}

/** Texts and milliseconds a request, by what was asked. */
export interface Answers {
  readonly texts: Record<string, string>;
  readonly ms: Record<string, number>;
}

function ownModels(decoupled: boolean): Promise<ModelRepository> {
  const more = { tensorrt_llm_bls: `tensorrt_llm_model_name:tensorrt_llm,decoupled_mode:${word(decoupled)}` };
  return createPipeline({ ...more, tensorrt_llm: `decoupled_mode:${word(decoupled)}` });
}

async function published(folder: string, decoupled: boolean): Promise<ModelRepository> {
  const repository = await createModelRepository({});
  for (const model of MODELS.filter((each) => existsSync(join(folder, each)))) {
    const target = join(repository.path, model);
    mkdirSync(join(target, "1"), { recursive: true });
    cpSync(join(folder, model), target, { recursive: true });
    const config = join(target, "config.pbtxt");
    const { text } = fillTemplate(readFileSync(config, "utf8"), `${VALUES},decoupled_mode:${word(decoupled)}`);
    writeFileSync(config, text);
  }
  return repository;
}

async function askAll(repository: ModelRepository, python: string, decoupled: boolean): Promise<Answers> {
  const server = await startServerProcess({ repositories: [repository.path], env: { NEREID_PYTHON: python } });
  try {
    const texts: Record<string, string> = {};
    const ms: Record<string, number> = {};
    for (const model of ["ensemble", "tensorrt_llm_bls"]) {
      if (!existsSync(join(repository.path, model))) continue;
      texts[model] = await generate(server, model, false, decoupled);
      if (decoupled) texts[`${model}, streamed`] = await generate(server, model, true, decoupled);
      ms[model] = await timed(NUM_TIMED, () => generate(server, model, false, decoupled));
    }
    ms.preprocessing = await timed(NUM_TIMED, () => preprocess(server));
    ms.postprocessing = await timed(NUM_TIMED, () => postprocess(server));
    return { texts, ms };
  } finally {
    await server.stop();
  }
}

async function generate(server: ServerProcess, model: string, stream: boolean, decoupled: boolean): Promise<string> {
  const url = `${server.baseUrl}/v2/models/${model}/generate`;
  const body = { text_input: PROMPT, max_tokens: NUM_TOKENS, stream, bad_words: "", stop_words: "" };
  if (!decoupled) return String((await postJson(url, body)).text_output);
  const reply = await fetch(`${url}_stream`, { method: "POST", body: JSON.stringify(body) });
  const text = await reply.text();
  const events = text.split("\n\n").filter((event) => event.startsWith("data: "));
  if (!reply.ok || events.length === 0) throw new Error(`${model}: ${reply.status} ${text}`);
  return events.map((event) => textOf(event.slice("data: ".length), model)).join("");
}

function textOf(event: string, model: string): string {
  const { text_output: text, error } = JSON.parse(event) as { text_output?: string; error?: string };
  if (error !== undefined) throw new Error(`${model}: ${error}`);
  return text ?? "";
}

async function preprocess(server: ServerProcess): Promise<void> {
  const metadata = await (await fetch(`${server.baseUrl}/v2/models/preprocessing`)).json();
  const wanted = new Map(
    (metadata as { inputs: { name: string; datatype: string }[] }).inputs.map((i) => [i.name, i.datatype]),
  );
  await postJson(`${server.baseUrl}/v2/models/preprocessing/infer`, {
    inputs: [
      { name: "QUERY", datatype: "BYTES", shape: [1, 1], data: [PROMPT] },
      { name: "BAD_WORDS_DICT", datatype: "BYTES", shape: [1, 1], data: [""] },
      { name: "STOP_WORDS_DICT", datatype: "BYTES", shape: [1, 1], data: [""] },
      { name: "REQUEST_OUTPUT_LEN", datatype: wanted.get("REQUEST_OUTPUT_LEN"), shape: [1, 1], data: [NUM_TOKENS] },
    ],
  });
}

async function postprocess(server: ServerProcess): Promise<void> {
  const metadata = await (await fetch(`${server.baseUrl}/v2/models/postprocessing`)).json();
  const names = (metadata as { inputs: { name: string }[] }).inputs.map(({ name }) => name);
  const tokens = Array.from({ length: NUM_TOKENS }, (_, i) => 100 + i);
  const inputs = [
    { name: "TOKENS_BATCH", datatype: "INT32", shape: [1, 1, NUM_TOKENS], data: tokens },
    { name: "SEQUENCE_LENGTH", datatype: "INT32", shape: [1, 1], data: [NUM_TOKENS] },
  ].filter(({ name }) => names.includes(name));
  await postJson(`${server.baseUrl}/v2/models/postprocessing/infer`, { inputs });
}

/** The oldest version leaves the mark of the beginning in front of its answers. @throws Error where they differ */
function compare(own: Answers, published: Answers): void {
  const different = Object.entries(published.texts).filter(
    ([asked, text]) => text === "" || text.replace(/^<s>/, "") !== own.texts[asked],
  );
  if (different.length > 0) throw new Error(`${JSON.stringify(own.texts)} and ${JSON.stringify(published.texts)}`);
}

function word(value: boolean): string {
  return value ? "True" : "False";
}
