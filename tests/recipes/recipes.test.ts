/** The pages of docs/recipes, run command by command on small random models under the names that stand there. */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { FakeHub } from "../../server/src/offline/hub-server.test-support.ts";
import { type FAMILIES, writeRandomModel } from "./random-model.ts";
import { openRecipe } from "./recipe-runner.ts";

const TIMEOUT_MS = 240_000;

/** A hub that has one repository with a random model of the family. */
async function hubWith(repoId: string, family: keyof typeof FAMILIES): Promise<FakeHub> {
  const hub = await FakeHub.start();
  const folder = mkdtempSync(join(tmpdir(), "nereid-model-"));
  writeRandomModel(folder, family);
  hub.repoId = repoId;
  for (const name of readdirSync(folder))
    hub.add(name, readFileSync(join(folder, name)), name.endsWith(".safetensors"));
  hub.add("pytorch_model.bin", "not wanted", true);
  rmSync(folder, { recursive: true });
  return hub;
}

test("docs/recipes/gpt2.md works as it stands", { timeout: TIMEOUT_MS }, async () => {
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
