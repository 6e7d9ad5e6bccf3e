/** The shipped templates, filled in by the recipe that people know, as a server's model repository. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { fillTemplate } from "../../offline/src/template/fill-template.ts";
import { parseModelConfigText } from "../../server/src/config/model/model-config.ts";
import { createPipeline, RECIPE, templateOf } from "../support/llm-pipeline.ts";
import { startServerProcess } from "../support/server-process.ts";

const GOLDEN = fileURLToPath(new URL("../../examples/nereid-tiny/golden_text.json", import.meta.url));
const [golden] = JSON.parse(readFileSync(GOLDEN, "utf8")) as { prompt: string; text: string; output_ids: number[] }[];
const MODELS = Object.keys(RECIPE);

for (const model of MODELS) {
  test(`the template of ${model} has every key of the recipe, and is read filled in or not`, () => {
    const filled = fillTemplate(templateOf(model), RECIPE[model] ?? "");
    assert.deepEqual(filled.unknown, []);
    const notes: string[] = [];
    const config = parseModelConfigText(filled.text, "config.pbtxt", (note) => notes.push(note));
    assert.equal(config.name, model);
    assert.equal(config.max_batch_size, 4);
    const unfilled = parseModelConfigText(templateOf(model), "config.pbtxt");
    assert.deepEqual(
      unfilled.input.map(({ name, data_type }) => [name, data_type]),
      config.input.map(({ name, data_type }) => [name, data_type]),
    );
  });
}

test("every parameter of the engine's template is described", () => {
  const described = readFileSync(fileURLToPath(new URL("../../docs/llm-parameters.md", import.meta.url)), "utf8");
  const { parameters } = parseModelConfigText(templateOf("tensorrt_llm"), "config.pbtxt");
  assert.deepEqual(
    Object.keys(parameters).filter((key) => !described.includes(`\`${key}\``)),
    [],
  );
});

interface Answer {
  readonly text_output: string;
}

for (const decoupled of ["True", "False"]) {
  test(`a repository of the templates serves both endpoints with decoupled_mode ${decoupled}`, async () => {
    const mode = `decoupled_mode:${decoupled}`;
    const more = { tensorrt_llm: `${mode},exclude_input_in_output:True`, tensorrt_llm_bls: mode };
    await using repository = await createPipeline(more);
    const server = await startServerProcess({ repositories: [repository.path] });
    try {
      for (const model of ["ensemble", "tensorrt_llm_bls"]) {
        for (const stream of [false, true]) {
          const body = JSON.stringify({
            text_input: golden?.prompt,
            max_tokens: 24,
            stream,
            bad_words: "",
            stop_words: [""],
          });
          const url = `${server.baseUrl}/v2/models/${model}`;
          const where = `${model}, stream ${stream}`;
          const one = await fetch(`${url}/generate`, { method: "POST", body });
          const { text_output } = (await one.json()) as Answer;
          assert.equal(one.status, 200, where);
          assert.ok(text_output !== "" && golden?.text.startsWith(text_output), `${where}: ${text_output}`);
          const many = await (await fetch(`${url}/generate_stream`, { method: "POST", body })).text();
          const events = [...many.matchAll(/^data: (.*)$/gm)].map(([, json = ""]) => JSON.parse(json) as Answer);
          assert.equal(events.map((event) => event.text_output).join(""), text_output, where);
          assert.equal(events.length > 1, stream && decoupled === "True", `${where}: ${events.length} events`);
        }
      }
      await server.stop();
    } finally {
      await server.kill();
    }
  });
}

/** As repositories looked in their first year: unsigned counts, open dimensions, scores through the model that makes text. */
function asOf2023(text: string, model: string): string {
  const counts = [
    "max_tokens",
    "REQUEST_OUTPUT_LEN",
    "request_output_len",
    "top_k",
    "runtime_top_k",
    "beam_width",
    "min_length",
  ];
  const open = ["text_input", "QUERY", "max_tokens", "REQUEST_OUTPUT_LEN"];
  const scores = ["CUM_LOG_PROBS", "OUTPUT_LOG_PROBS"];
  return text.replace(/\{\n {4}name: "(\w+)"[^{}]*(?:\{[^{}]*\}[^{}]*)*\}/g, (block, name: string) => {
    let changed = block;
    if (counts.includes(name)) changed = changed.replace("TYPE_INT32", "TYPE_UINT32");
    if (open.includes(name) && model !== "tensorrt_llm") changed = changed.replace("dims: [ 1 ]", "dims: [ -1 ]");
    if (scores.includes(name)) changed = changed.replace(/\n\s*optional: true/, "");
    return changed;
  });
}

test("a repository with the tensors of the first year is served as one of today", async () => {
  await using repository = await createPipeline({ tensorrt_llm: "exclude_input_in_output:True" }, asOf2023);
  const models = ["preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls"];
  const flags = ["--model-control-mode=explicit", ...models.map((model) => `--load-model=${model}`)];
  const server = await startServerProcess({ repositories: [repository.path], flags });
  try {
    const config = await (await fetch(`${server.baseUrl}/v2/models/tensorrt_llm_bls`)).text();
    assert.match(config, /"name":"max_tokens","datatype":"UINT32","shape":\[-1,-1\]/);
    const body = JSON.stringify({ text_input: golden?.prompt, max_tokens: 16, top_k: 1, stop_words: ["group"] });
    const url = `${server.baseUrl}/v2/models/tensorrt_llm_bls/generate`;
    const reply = (await (await fetch(url, { method: "POST", body })).json()) as Answer;
    assert.match(reply.text_output, /group$/);
    await server.stop();
  } finally {
    await server.kill();
  }
});
