/** Tokens that end a generation: the ids in the model's own files, or the ids of a request. */
import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Tensor } from "../../core/tensor.ts";
import { call, int32, notDecoupled, prompt, serve, values } from "./llm.test-support.ts";

const MODEL = fileURLToPath(new URL("../../../../tests/parity/models/llama-3.2", import.meta.url));
const { prompt: PROMPT, greedy: GREEDY } = JSON.parse(await readFile(`${MODEL}/expected.json`, "utf8")) as {
  readonly prompt: number[];
  readonly greedy: number[];
};
/** Ids that come where none of them came before: the first ends the generation first. */
const [EARLY = 0, MIDDLE = 0, LATE = 0] = [3, 6, 9].map((at) => GREEDY[at]);
const until = (id: number): number[] => GREEDY.slice(0, GREEDY.indexOf(id));

/** The tiny model with another generation_config.json. */
async function serveWith(t: TestContext, eosIds: unknown): Promise<(...more: Tensor[]) => Promise<number[]>> {
  const folder = await mkdtemp(join(tmpdir(), "end-ids-"));
  t.after(() => rm(folder, { recursive: true }));
  await cp(MODEL, folder, { recursive: true });
  await writeFile(join(folder, "generation_config.json"), JSON.stringify({ eos_token_id: eosIds }));
  const path = `parameters { key: "gpt_model_path" value { string_value: "${folder}" } }`;
  const change = (text: string): string => notDecoupled(text.replace(/^parameters[\s\S]*?^}\n/gm, "")) + path;
  const { instance } = await serve(t, change, {});
  return async (...more) => {
    const { responses, ended } = call(instance, prompt(PROMPT, GREEDY.length, ...more));
    assert.equal(await ended, undefined);
    return values(responses[0], "output_ids").values.slice(PROMPT.length);
  };
}

test("each of the ids that generation_config.json lists ends a generation when the request names none", async (t) => {
  for (const ids of [[MIDDLE, EARLY], [LATE, MIDDLE], LATE]) {
    const ask = await serveWith(t, ids);
    const first = [ids]
      .flat()
      .map(until)
      .sort((a, b) => a.length - b.length)[0];
    assert.deepEqual(await ask(), first, `ids ${ids}`);
  }
});

test("one of the model's ids stands for all of them, another id for itself, and -1 for none", async (t) => {
  const ask = await serveWith(t, [LATE, MIDDLE]);
  assert.deepEqual(await ask(int32("end_id", [1], LATE)), until(MIDDLE));
  assert.deepEqual(await ask(int32("end_id", [1], EARLY)), until(EARLY));
  assert.deepEqual(await ask(int32("end_id", [1], -1)), GREEDY);
});
