/** The example's encoders in 8 bits, made by `nereid onnx quantize`, in the place of the originals: captions and look-ups. */
import assert from "node:assert/strict";
import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { longTestsReason } from "../support/long-tests.ts";
import type { ServerProcess } from "../support/server-process.ts";
import {
  createVisionRepository,
  EXAMPLE_FOLDER,
  generate,
  indexCaptions,
  makeCaptions,
  mapSome,
  readScenes,
  renderScenes,
  runNode,
  startVisionServer,
  type VisionRepository,
} from "../support/vision-server.ts";

const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const skip = longTestsReason ?? false;
const LEAST_SAME = 31;
const NUM_CAPTIONS = 10_000;
const NUM_IMAGES = 100;
/** Least share of the images. Processors without VNNI take unsigned weights (exactWeights), which find 96 of 100. */
const LEAST_FOUND = 0.95;
const scenes = JSON.parse(readFileSync(`${EXAMPLE_FOLDER}nereid-tiny/golden_captions.json`, "utf8")) as {
  readonly index: number;
  readonly generated: string;
}[];

let repository: VisionRepository;
let server: ServerProcess;

/** The example with both encoders in 8 bits, and captions encoded by them. */
before(async () => {
  if (longTestsReason !== undefined) return;
  const example = createVisionRepository("memory:../../store");
  const models = join(example.folder, "model_repository");
  repository = { ...example, repositories: [models, ...example.repositories.slice(1)] };
  for (const model of ["postprocessing", "tensorrt_llm", "text_encoder", "vision_encoder"]) {
    cpSync(join(EXAMPLE_FOLDER, "model_repository", model), join(models, model), {
      recursive: true,
      dereference: true,
    });
  }
  for (const encoder of ["vision_encoder", "text_encoder"]) {
    const original = join(EXAMPLE_FOLDER, `nereid-tiny/onnx/${encoder}.onnx`);
    const output = join(models, encoder, "1/model.onnx");
    await runNode([NEREID, "onnx", "quantize", "--quiet", "--samples", "1", "--input", original, "--output", output]);
    assert.ok(readFileSync(output).length < 0.75 * readFileSync(original).length, encoder);
  }
  const captions = join(repository.folder, "captions.jsonl");
  await makeCaptions(captions, NUM_CAPTIONS);
  await indexCaptions(repository, captions, `memory:${join(repository.folder, "store")}`);
  await renderScenes(join(repository.folder, "pictures"), NUM_IMAGES);
  server = await startVisionServer(repository);
});

after(async () => {
  await server?.kill();
  repository?.[Symbol.dispose]();
});

test(`the vision encoder in 8 bits gives at least ${LEAST_SAME} of ${scenes.length} captions of the original`, {
  skip,
}, async (context) => {
  const answers = await mapSome(scenes, 8, async ({ index }) => {
    const path = `${EXAMPLE_FOLDER}nereid-tiny/images/scene_${String(index).padStart(2, "0")}.png`;
    const body = { image: readFileSync(path).toString("base64"), text_input: "Describe the image.", max_tokens: 40 };
    return String((await generate(server, "vlm", body)).text_output).trim();
  });
  const same = answers.filter((answer, i) => answer === scenes[i]?.generated).length;
  context.diagnostic(`${same} of ${scenes.length} captions`);
  assert.ok(same >= LEAST_SAME, `${same} of ${scenes.length}`);
});

test(`with both encoders in 8 bits, images find their caption first among ${NUM_CAPTIONS}`, {
  skip,
}, async (context) => {
  const folder = join(repository.folder, "pictures");
  const found = await mapSome(readScenes(folder), 8, async ({ file, text }) => {
    const image = readFileSync(join(folder, file)).toString("base64");
    const { matches } = await generate(server, "vlm_search", { image, text_input: "What is this?", max_tokens: 5 });
    return JSON.parse((matches as string[])[0] ?? "{}").text === text;
  });
  const numFound = found.filter(Boolean).length;
  context.diagnostic(`${numFound} of ${found.length} images`);
  assert.equal(found.length, NUM_IMAGES);
  assert.ok(numFound >= LEAST_FOUND * NUM_IMAGES, `${numFound} of ${NUM_IMAGES}`);
});
