/** `nereid index --documents mongodb://…`: vectors in one store, documents in FerretDB, looked up by the served model. */
import assert from "node:assert/strict";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { noFerret, startFerret } from "../support/ferret-server.ts";
import { startServerProcess } from "../support/server-process.ts";
import { infer, parameter, type Wire } from "../support/vision-language-model.ts";
import { createVisionRepository, indexCaptions, makeCaptions } from "../support/vision-server.ts";

const NUM_CAPTIONS = 60;

test("`nereid index` writes documents into FerretDB beside vectors in memory, once, and look-ups answer with them", {
  skip: noFerret,
  timeout: 600_000,
}, async () => {
  using repository = createVisionRepository("memory:../../store");
  await using ferret = await startFerret(join(repository.folder, "ferret"));
  const captions = join(repository.folder, "captions.jsonl");
  await makeCaptions(captions, NUM_CAPTIONS);
  const store = `memory:${join(repository.folder, "store")}`;
  const index = (): ReturnType<typeof indexCaptions> =>
    indexCaptions(repository, captions, store, ["--documents", ferret.url]);
  const first = await index();
  assert.deepEqual([first.written, first.unchanged], [NUM_CAPTIONS, 0]);
  const changed = { id: "mine", sentence: "A purple hexagon on a white background.", note: { of: "the test" } };
  writeFileSync(captions, `${readFileSync(captions, "utf8").trimEnd()}\n${JSON.stringify(changed)}\n`);
  const second = await index();
  assert.deepEqual([second.written, second.unchanged], [1, NUM_CAPTIONS]);

  const search = join(repository.folder, "vision_repository/caption_search/config.pbtxt");
  appendFileSync(search, parameter("documents", ferret.url));
  const flags = ["--model-control-mode=explicit", "--load-model=caption_encoder", "--load-model=caption_search"];
  const server = await startServerProcess({ repositories: repository.repositories, flags });
  try {
    const text: Wire = { name: "TEXT", datatype: "BYTES", shape: [1, 1], data: [changed.sentence] };
    const [encoded] = (await infer(server, "caption_encoder", [text])).values();
    const { data = [] } = encoded ?? {};
    const vector: Wire = { name: "embedding", datatype: "FP32", shape: [1, data.length], data };
    const documents = (await infer(server, "caption_search", [vector])).get("documents")?.data ?? [];
    assert.deepEqual(JSON.parse(String(documents[0])), changed);
    assert.equal(documents.length, 3);
    await server.stop();
  } finally {
    await server.kill();
  }
});
