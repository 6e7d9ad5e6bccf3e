/** Texts to vectors by the text encoder of a CLIP folder, served and batched, against transformers (see record_clip_text.py). */
import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import {
  assertClose,
  createVisionRepository,
  exportEncoder,
  infer,
  io,
  parameter,
  step,
} from "../support/vision-language-model.ts";

const FOLDER = fileURLToPath(new URL("clip-text", import.meta.url));
const TOLERANCE = 1e-4;
/** A batch of all texts is full; fewer wait this long for others. */
const QUEUE_DELAY_US = 1_000_000;

interface Recorded {
  readonly text: string;
  readonly ids: readonly number[];
  readonly vector: readonly number[];
}

const cases: readonly Recorded[] = JSON.parse(await readFile(join(FOLDER, "expected.json"), "utf8"));
const encoder = (name: string): string => `name: "${name}" backend: "onnxruntime" max_batch_size: ${cases.length}
  input [ ${io("input_ids", "INT64", "-1")} ] output [ ${io("text_embeds", "FP32", "12")} ]
  dynamic_batching { preferred_batch_size: [ ${cases.length} ] max_queue_delay_microseconds: ${QUEUE_DELAY_US} }`;
const pipeline = (name: string, calls: string): string =>
  `name: "${name}" platform: "ensemble" max_batch_size: ${cases.length}
  input [ ${io("text", "STRING", "1")} ] output [ ${io("ids", "INT64", "-1")}, ${io("embeddings", "FP32", "12")} ]
  ensemble_scheduling { step [
    ${step("tokens", ["TEXT=text"], ["input_ids=ids"])},
    ${step(calls, ["input_ids=ids"], ["text_embeds=embeddings"])}
  ] }`;
const FILES = {
  "tokens/config.pbtxt": `name: "tokens" backend: "tokenizer" max_batch_size: ${cases.length}
    input [ ${io("TEXT", "STRING", "1")} ] output [ ${io("input_ids", "INT64", "-1")}, ${io("attention_mask", "INT64", "-1")} ]
    ${parameter("tokenizer_dir", FOLDER)} ${parameter("pad_to_multiple_of", "24")}`,
  "encoder/config.pbtxt": encoder("encoder"),
  "older/config.pbtxt": encoder("older"),
  "clip_text/config.pbtxt": pipeline("clip_text", "encoder"),
  "older_clip_text/config.pbtxt": pipeline("older_clip_text", "older"),
};

let repository: ModelRepository;
let server: ServerProcess;

before(async () => {
  repository = await createVisionRepository(FOLDER, FILES, "encoder");
  await exportOlder();
  const flags = ["--model-control-mode=explicit", "--load-model=clip_text", "--load-model=older_clip_text"];
  server = await startServerProcess({ repositories: [repository.path], flags });
});

after(async () => {
  await server?.kill();
  await repository?.[Symbol.asyncDispose]();
});

/** Configurations of the first years say 2 for the end of a text, which then is where the largest id stands. */
async function exportOlder(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "nereid-clip-"));
  await cp(FOLDER, folder, { recursive: true });
  const config = JSON.parse(await readFile(join(FOLDER, "config.json"), "utf8")) as object;
  await writeFile(join(folder, "config.json"), JSON.stringify({ ...config, eos_token_id: 2 }));
  await exportEncoder(folder, repository, "older");
  await rm(folder, { recursive: true });
}

for (const { model, calls } of [
  { model: "clip_text", calls: "encoder" },
  { model: "older_clip_text", calls: "older" },
]) {
  test(`vectors of \`${model}\` are those of transformers, from one batch of single requests`, async () => {
    const answers = await Promise.all(
      cases.map(({ text }) => infer(server, model, [{ name: "text", datatype: "BYTES", shape: [1, 1], data: [text] }])),
    );
    for (const [i, { text, ids, vector }] of cases.entries()) {
      assert.deepEqual(answers[i]?.get("ids")?.data.slice(0, ids.length), ids, text);
      assertClose(answers[i]?.get("embeddings"), { shape: [1, vector.length], data: vector }, TOLERANCE);
    }
    const reply = await fetch(`${server.baseUrl}/v2/models/${calls}/stats`);
    const { model_stats } = (await reply.json()) as {
      model_stats: readonly { readonly inference_count: number; readonly execution_count: number }[];
    };
    const [{ inference_count: texts, execution_count: runs } = { inference_count: 0, execution_count: 0 }] =
      model_stats;
    assert.equal(texts, cases.length);
    assert.ok(runs < texts, `${runs} runs`);
  });
}
