/** The pages of docs/recipes, run command by command on small random models under the names that stand there. */
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { fillTemplate } from "../../offline/src/template/fill-template.ts";
import { FakeHub } from "../../server/src/hub/hub-server.test-support.ts";
import { attribute, intField, model, node, ONNX_TYPE } from "../fakes/onnx-writer.ts";
import { LLMAPI_CONFIG, llmApiYaml, VLLM_CONFIG } from "../support/engine-folders.ts";
import { LANGUAGE_MODEL, RECIPE, templateOf } from "../support/llm-pipeline.ts";
import { longTestsReason } from "../support/long-tests.ts";
import { clientVenv } from "../support/python-checks.ts";
import { openEndpoint } from "./one-endpoint.ts";
import { writeRandomClip, writeRandomMiniLm } from "./random-encoder.ts";
import { type FAMILIES, writeRandomModel } from "./random-model.ts";
import { writeRandomLlava, writeRandomQwen } from "./random-seeing.ts";
import { openRecipe } from "./recipe-runner.ts";

const TIMEOUT_MS = 600_000;
const skip = clientVenv.python === undefined ? clientVenv.reason : false;

/** A hub that has one repository with a random model of the family. */
async function hubWith(repoId: string, family: keyof typeof FAMILIES): Promise<FakeHub> {
  const hub = await hubOf(repoId, (folder) => writeRandomModel(folder, family));
  hub.add("pytorch_model.bin", "not wanted", true);
  return hub;
}

/** A hub that has one repository, with what `write` puts into a folder. */
async function hubOf(repoId: string, write: (folder: string) => void): Promise<FakeHub> {
  const hub = await FakeHub.start();
  const folder = mkdtempSync(join(tmpdir(), "nereid-model-"));
  write(folder);
  hub.repoId = repoId;
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    hub.add(relative(folder, path), readFileSync(path), entry.name.endsWith(".safetensors"));
  }
  rmSync(folder, { recursive: true });
  return hub;
}

test("docs/recipes/gpt2.md works as it stands", { timeout: TIMEOUT_MS, skip: longTestsReason ?? false }, async () => {
  await using hub = await hubWith("openai-community/gpt2-medium", "gpt2");
  await using recipe = await openRecipe("gpt2", { env: { HF_ENDPOINT: hub.endpoint } });
  const [whole = "", streamed = ""] = await recipe.run();
  const answer: Record<string, unknown> = JSON.parse(whole);
  assert.equal(answer.model_name, "ensemble");
  assert.equal(typeof answer.text_output, "string");
  assert.equal(streamed.match(/^data: \{.*"text_output"/gm)?.length, 20);
  assert.equal(hub.fetches("pytorch_model.bin").length, 0);
});

test("docs/recipes/mistral-nemo.md works as it stands", { timeout: TIMEOUT_MS }, async () => {
  await using hub = await hubWith("mistralai/Mistral-Nemo-Instruct-2407", "mistral");
  const env = { HF_ENDPOINT: hub.endpoint };
  await using recipe = await openRecipe("mistral-nemo", { env, ports: [5555, 5556, 5557] });
  const answers = (await recipe.run()).map((text): Record<string, unknown> => JSON.parse(text));
  assert.deepEqual(
    answers.map(({ model_name }) => model_name),
    ["ensemble", "tensorrt_llm_bls"],
  );
  assert.equal(
    answers.every(({ text_output }) => typeof text_output === "string" && text_output !== ""),
    true,
  );
});

test("docs/recipes/llama-awq.md works as it stands", {
  timeout: TIMEOUT_MS,
  skip: longTestsReason ?? false,
}, async () => {
  await using hub = await hubWith("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama");
  hub.token = "hf_test";
  const env = { HF_ENDPOINT: hub.endpoint, HUGGING_FACE_HUB_TOKEN: hub.token };
  await using recipe = await openRecipe("llama-awq", { env });
  const [answer = ""] = await recipe.run();
  const { model_name, text_output }: Record<string, unknown> = JSON.parse(answer);
  assert.deepEqual([model_name, typeof text_output], ["ensemble", "string"]);
});

/** A repository of each layout, as its users have them. */
function writeForeignRepositories(folder: string, model: string): void {
  const write = (path: string, text: string): void => {
    mkdirSync(join(folder, dirname(path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  for (const [name, recipe] of Object.entries(RECIPE)) {
    const filled = fillTemplate(templateOf(name), recipe.replaceAll(LANGUAGE_MODEL, "/engines/tiny")).text;
    mkdirSync(join(folder, "inflight_repo", name, "1"), { recursive: true });
    write(`inflight_repo/${name}/config.pbtxt`, name === "postprocessing" ? templateOf(name) : filled);
  }
  write("llmapi_repo/tensorrt_llm/config.pbtxt", LLMAPI_CONFIG);
  write("llmapi_repo/tensorrt_llm/1/model.py", "import tensorrt_llm\n");
  write("llmapi_repo/tensorrt_llm/1/model.yaml", llmApiYaml(model, false));
  write("vllm_repo/vllm_model/config.pbtxt", VLLM_CONFIG);
  write("vllm_repo/vllm_model/1/model.json", JSON.stringify({ model, gpu_memory_utilization: 0.1 }));
}

test("docs/recipes/migration.md works as it stands", { timeout: TIMEOUT_MS }, async () => {
  await using hub = await hubWith("org/tiny", "llama");
  await using recipe = await openRecipe("migration", { env: { HF_ENDPOINT: hub.endpoint } });
  writeForeignRepositories(recipe.folder, "org/tiny");
  const answers = (await recipe.run()).map((text): Record<string, unknown> => JSON.parse(text));
  assert.deepEqual(
    answers.map(({ model_name, model }) => model_name ?? model),
    ["ensemble", "tensorrt_llm", "tensorrt_llm", "tensorrt_llm", "vllm_model"],
  );
  const [pipeline, , metrics, chat, vllm] = answers;
  assert.equal(typeof pipeline?.text_output, "string");
  assert.ok(Number(metrics?.kv_cache_alloc_total_blocks) >= 1);
  assert.match(JSON.stringify(chat?.choices), /"role":"assistant"/);
  assert.match(String(vllm?.text_output), /^What is Triton Inference Server\?/);
  assert.equal(hub.fetches("pytorch_model.bin").length, 0);
});

/** Stands in for the library on machines without it: the model's own code runs. */
const TRANSFORMERS = `
class AutoTokenizer:
    @staticmethod
    def from_pretrained(folder):
        return folder

def pipeline(task, model, tokenizer):
    assert task == "text-generation" and model == tokenizer
    return lambda text, max_new_tokens: [{"generated_text": f"{text} and {max_new_tokens} more"}]
`;

test("docs/recipes/llama2-python.md works as it stands", { timeout: TIMEOUT_MS, skip }, async () => {
  await using hub = await hubWith("meta-llama/Llama-2-7b-chat-hf", "llama");
  const modules = mkdtempSync(join(tmpdir(), "nereid-modules-"));
  writeFileSync(join(modules, "transformers.py"), TRANSFORMERS);
  const env = { HF_ENDPOINT: hub.endpoint, PYTHONPATH: modules, NEREID_PYTHON: clientVenv.python ?? "" };
  await using recipe = await openRecipe("llama2-python", { env });
  const [engine, python, typed] = (await recipe.run()).map((text): Record<string, unknown> => JSON.parse(text));
  rmSync(modules, { recursive: true });
  assert.equal(typeof engine?.text_output, "string");
  assert.equal(python?.text_output, "What is machine learning? and 20 more");
  const outputs = typed?.outputs as readonly { readonly name: string; readonly data: readonly unknown[] }[];
  assert.deepEqual(outputs.find(({ name }) => name === "text_output")?.data, [engine?.text_output]);
});

/** Adds its two inputs: what matters is names and shapes. */
function smallOnnx(): Uint8Array {
  const toFloat = attribute("to", 2, [intField(3, ONNX_TYPE.FLOAT)]);
  const [ids, position] = ["input_ids", "onnx::Gather_1"];
  return model({
    nodes: [node("Add", [ids, position], ["sum"]), node("Cast", ["sum"], ["logits"], [toFloat])],
    inputs: [
      [ids, ONNX_TYPE.INT64, ["batch", "length"]],
      [position, ONNX_TYPE.INT64, ["batch", 1]],
    ],
    outputs: [["logits", ONNX_TYPE.FLOAT, ["batch", "length"]]],
  });
}

test("docs/recipes/gemma-onnx.md works as it stands", { timeout: TIMEOUT_MS }, async () => {
  await using hub = await FakeHub.start();
  hub.repoId = "onnx-community/gemma-3-1b-it-ONNX";
  hub.add("onnx/model.onnx", Buffer.from(smallOnnx()), true);
  hub.add("onnx/model_q4.onnx", "not wanted", true);
  await using recipe = await openRecipe("gemma-onnx", { env: { HF_ENDPOINT: hub.endpoint } });
  const [answer = ""] = await recipe.run();
  const { outputs }: { readonly outputs: readonly { readonly data: readonly number[] }[] } = JSON.parse(answer);
  assert.deepEqual(outputs[0]?.data, [4, 5, 6]);
  assert.equal(hub.fetches("onnx/model_q4.onnx").length, 0);
});

test("docs/recipes/clip-minilm.md works as it stands", { timeout: TIMEOUT_MS }, async () => {
  await using texts = await hubOf("sentence-transformers/all-MiniLM-L6-v2", writeRandomMiniLm);
  await using images = await hubOf("openai/clip-vit-large-patch14", writeRandomClip);
  images.add("flax_model.msgpack", "not wanted", true);
  await using endpoint = await openEndpoint([texts, images]);
  await using recipe = await openRecipe("clip-minilm", { env: { HF_ENDPOINT: endpoint.url } });
  const answers = (await recipe.run()).map((text): Answer => JSON.parse(text));
  const [[embedding] = [], both = []] = answers.map(({ outputs }) => outputs);
  assert.deepEqual([embedding?.name, embedding?.shape], ["sentence_embedding", [1, 16]]);
  const length = Math.hypot(...(embedding?.data ?? []));
  assert.ok(Math.abs(length - 1) < 1e-3, `the length is ${length}`);
  const shapes = Object.fromEntries(both.map(({ name, shape }) => [name, shape]));
  assert.deepEqual(shapes, { sentence_embedding: [1, 16], image_embeds: [1, 768] });
  assert.equal(images.fetches("flax_model.msgpack").length, 0);
});

const IMAGE = fileURLToPath(new URL("../vision/images/wide.png", import.meta.url));

for (const { page, repoId, write, isLong } of [
  { page: "llava", repoId: "llava-hf/llava-v1.6-mistral-7b-hf", write: writeRandomLlava, isLong: true },
  { page: "qwen2-vl", repoId: "Qwen/Qwen2-VL-2B-Instruct", write: writeRandomQwen, isLong: false },
]) {
  const reason = isLong ? longTestsReason : undefined;
  test(`docs/recipes/${page}.md works as it stands`, { timeout: TIMEOUT_MS, skip: reason ?? false }, async () => {
    await using hub = await hubOf(repoId, write);
    await using recipe = await openRecipe(page, { env: { HF_ENDPOINT: hub.endpoint } });
    copyFileSync(IMAGE, join(recipe.folder, "picture.png"));
    const [whole = "", streamed = ""] = await recipe.run();
    const { model_name, text_output }: Record<string, unknown> = JSON.parse(whole);
    assert.equal(model_name, "vlm");
    assert.match(String(text_output), /^(?:\s?w\d+)+$/);
    assert.equal(streamed.match(/^data: \{.*"text_output"/gm)?.length, 16);
  });
}

interface Answer {
  readonly outputs: readonly {
    readonly name: string;
    readonly shape: readonly number[];
    readonly data: readonly number[];
  }[];
}

test("docs/recipes/README.md lists every recipe", () => {
  const folder = new URL("../../docs/recipes/", import.meta.url);
  const pages = readdirSync(folder).filter((name) => name !== "README.md");
  const listed = readFileSync(new URL("README.md", folder), "utf8");
  assert.deepEqual(
    pages.filter((name) => !listed.includes(`(${name})`)),
    [],
  );
});
