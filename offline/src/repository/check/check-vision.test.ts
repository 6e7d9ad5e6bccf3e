import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Reporter } from "@nereid/server/files/progress";
import { diagnose } from "./doctor.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "nereid-check-vision-"));
after(() => rmSync(FOLDER, { recursive: true }));

const image = (parameter: string): string => `backend: "image"
input [ { name: "IMAGE" data_type: TYPE_STRING dims: [ -1 ] } ]
output [ { name: "pixel_values" data_type: TYPE_FP32 dims: [ -1, 3, 8, 8 ] } ]
${parameter}`;
const retrieval = (parameter: string): string => `backend: "retrieval"
max_batch_size: 2
input [ { name: "embedding" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "ids" data_type: TYPE_STRING dims: [ -1 ] } ]
${parameter}`;
const parameter = (key: string, value: string): string =>
  `parameters { key: "${key}" value { string_value: "${value}" } }`;

for (const [what, config, isLoadable, problem] of [
  ["images without a size", image(""), true, undefined],
  [
    "an unknown filter",
    image(parameter("resample", "7") + parameter("size", "8")),
    false,
    /'resample' must be a whole number from 0 to 5/,
  ],
  [
    "a store that is empty",
    retrieval(parameter("store", "pglite:nowhere")),
    true,
    /nowhere is empty: look-ups will fail/,
  ],
  ["a store elsewhere", retrieval(parameter("store", "postgresql://host/db")), true, undefined],
  ["a store of no kind", retrieval(parameter("store", "redis://host")), false, /no store is at an address of 'redis:'/],
  [
    "a metric of no kind",
    retrieval(parameter("metric", "near")),
    false,
    /'metric' is 'near', expected cosine, dot, l2/,
  ],
] as const) {
  test(`\`diagnose()\` of ${what}`, async () => {
    const repository = mkdtempSync(join(FOLDER, "repository-"));
    mkdirSync(join(repository, "model", "1"), { recursive: true });
    writeFileSync(join(repository, "model", "config.pbtxt"), `name: "model"\n${config}`);
    const reporter = new Reporter({ mode: "quiet", command: "doctor" });
    const { models, findings: all } = await diagnose([repository], reporter, new AbortController().signal);
    // Beside them stands a note which API the model answers.
    const findings = all.filter(({ problem: found }) => !/^it (serves|is a chat model|is no chat model)/.test(found));
    assert.deepEqual(
      models.map((model) => model.isLoadable),
      [isLoadable],
    );
    assert.equal(findings.length, problem === undefined ? 0 : 1);
    assert.match(findings[0]?.problem ?? "", problem ?? /^$/);
  });
}

test("`diagnose()` calls a model of images no embeddings model", async () => {
  const repository = mkdtempSync(join(FOLDER, "repository-"));
  mkdirSync(join(repository, "model", "1"), { recursive: true });
  writeFileSync(join(repository, "model", "config.pbtxt"), `name: "model"\n${image("")}`);
  const reporter = new Reporter({ mode: "quiet", command: "doctor" });
  const { findings } = await diagnose([repository], reporter, new AbortController().signal);
  assert.deepEqual(
    findings.map(({ problem }) => /serves|no chat model/.exec(problem)?.[0]),
    ["no chat model"],
  );
});
