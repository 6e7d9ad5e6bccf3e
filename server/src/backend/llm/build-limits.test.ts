import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { parseBuildLimits } from "./build-limits.ts";
import { call, notDecoupled, prompt, serve, values } from "./llm.test-support.ts";

const MODEL = fileURLToPath(new URL("../../../../tests/parity/models/llama-3.2", import.meta.url));
const { prompt: PROMPT, greedy: GREEDY } = JSON.parse(await readFile(`${MODEL}/expected.json`, "utf8")) as {
  readonly prompt: number[];
  readonly greedy: number[];
};

type Ask = (numNew: number) => Promise<{ readonly error: string | undefined; readonly tokens: number[] }>;

/** The tiny model as if it had been built with `limits`. */
async function serveBuilt(t: TestContext, limits: object): Promise<Ask> {
  const folder = await mkdtemp(join(tmpdir(), "build-limits-"));
  t.after(() => rm(folder, { recursive: true }));
  await cp(MODEL, folder, { recursive: true });
  const config: unknown = JSON.parse(await readFile(join(folder, "config.json"), "utf8"));
  await writeFile(join(folder, "config.json"), JSON.stringify({ ...(config as object), build_config: limits }));
  const path = `parameters { key: "gpt_model_path" value { string_value: "${folder}" } }`;
  const change = (text: string): string => notDecoupled(text.replace(/^parameters[\s\S]*?^}\n/gm, "")) + path;
  const { instance } = await serve(t, change, {});
  return async (numNew) => {
    const { responses, ended } = call(instance, prompt(PROMPT, numNew));
    const error = (await ended)?.message ?? responses[0]?.error?.message;
    const tokens = error === undefined ? values(responses[0], "output_ids").values.slice(PROMPT.length) : [];
    return { error, tokens };
  };
}

test("max_seq_len of an engine ends a generation, as the model's context would", async (t) => {
  const ask = await serveBuilt(t, { max_seq_len: PROMPT.length + 3, max_batch_size: 4, max_num_tokens: 64 });
  assert.deepEqual(await ask(8), { error: undefined, tokens: GREEDY.slice(0, 3) });
});

test("max_input_len of an engine refuses longer prompts", async (t) => {
  const ask = await serveBuilt(t, { max_input_len: PROMPT.length - 1 });
  const { error = "" } = await ask(2);
  assert.match(
    error,
    new RegExp(`Prompt length \\(${PROMPT.length}\\) exceeds maximum input length \\(${PROMPT.length - 1}\\)`),
  );
});

const CASES: readonly (readonly [text: string, expected: object])[] = [
  ['{"build_config":{"max_seq_len":9,"max_beam_width":2,"plugin_config":{}}}', { max_seq_len: 9, max_beam_width: 2 }],
  ['{"build_config":{"max_seq_len":"9","max_batch_size":0,"max_num_tokens":1.5,"max_input_len":null}}', {}],
  ['{"hidden_size":4}', {}],
  ['{"build_config":null}', {}],
  ["null", {}],
  ["{", {}],
];

for (const [text, expected] of CASES) {
  test(`parseBuildLimits() reads ${text}`, () => assert.deepEqual(parseBuildLimits(text), expected));
}

test("parseBuildLimits() says that an engine was built for a GPU", () => {
  const built = (device: unknown): string =>
    JSON.stringify({ build_config: { max_batch_size: 4, nereid: { device } } });
  assert.deepEqual(parseBuildLimits(built("cuda sm_90a (NVIDIA H200)")), { max_batch_size: 4, isForGpu: true });
  for (const device of ["cpu", 7, undefined]) assert.deepEqual(parseBuildLimits(built(device)), { max_batch_size: 4 });
});
