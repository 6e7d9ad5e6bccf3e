import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Reporter } from "@nereid/server/files/progress";
import { diagnose } from "./doctor.ts";

const MODEL = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model", import.meta.url));
const silent = { write: () => true };
const reporter = new Reporter({ mode: "quiet", command: "doctor", stderr: silent, stdout: silent });
const repository = mkdtempSync(join(tmpdir(), "nereid-check-llm-"));
after(() => rmSync(repository, { recursive: true }));

function add(model: string, files: Readonly<Record<string, string>>): void {
  mkdirSync(join(repository, model, "1"), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(repository, model, name), text);
}

test("folders for the LLM API and for vLLM are read as our engine reads them", async () => {
  const inputs = ["text_input", "sampling_param_max_tokens"].map(
    (name) => `{ name: "${name}" data_type: TYPE_STRING dims: [1] }`,
  );
  const output = '{ name: "text_output" data_type: TYPE_STRING dims: [1] }';
  const api = `backend: "python" input [ ${inputs.join(", ")} ] output [ ${output} ]`;
  add("api", { "config.pbtxt": api, "1/model.py": "", "1/model.yaml": `model: ${MODEL}\nmax_batch_sise: 3\n` });
  add("absent", { "config.pbtxt": 'backend: "vllm"', "1/model.json": '{ "model": "/nowhere" }' });
  add("broken", { "config.pbtxt": 'backend: "vllm"', "1/model.json": "{" });
  add("later", { "config.pbtxt": 'backend: "vllm"', "1/model.json": '{ "model": "org/far" }' });
  const { findings, models } = await diagnose([repository], reporter, new AbortController().signal);
  const broken = models.filter(({ isLoadable }) => !isLoadable).map(({ name }) => name);
  assert.deepEqual(broken.sort(), ["absent", "broken"]);
  const said = (model: string): string =>
    findings.flatMap((one) => (one.model === model ? [one.problem] : [])).join("\n");
  assert.match(said("api"), /unknown, ignored: max_batch_sise \(did you mean max_batch_size\?\)/);
  assert.match(said("api"), /it is a folder for TensorRT-LLM's LLM API, and runs on this server's engine/);
  assert.match(said("absent"), /'model' is \/nowhere, which does not exist/);
  assert.match(said("broken"), /Failed to parse engine config/);
  assert.match(said("later"), /the server downloads org\/far when it loads the model/);
});
