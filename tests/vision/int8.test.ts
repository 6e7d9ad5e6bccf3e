/** The example's encoders in 8 bits, made by `nereid onnx quantize`, in the place of the originals: captions beside those of the originals. */
import assert from "node:assert/strict";
import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import {
  createVisionRepository,
  EXAMPLE_FOLDER,
  generate,
  mapSome,
  runNode,
  startVisionServer,
} from "../support/vision-server.ts";

const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const LEAST_SAME = 31;
const scenes = JSON.parse(readFileSync(`${EXAMPLE_FOLDER}nereid-tiny/golden_captions.json`, "utf8")) as {
  readonly index: number;
  readonly generated: string;
}[];

test(`the vision encoder in 8 bits gives at least ${LEAST_SAME} of ${scenes.length} captions of the original`, {
  timeout: 200_000,
}, async (context) => {
  using repository = createVisionRepository("memory:../../store");
  const models = join(repository.folder, "model_repository");
  const wanted = ["postprocessing", "tensorrt_llm", "text_encoder", "vision_encoder"];
  for (const model of wanted) {
    cpSync(join(EXAMPLE_FOLDER, "model_repository", model), join(models, model), {
      recursive: true,
      dereference: true,
    });
  }
  const original = join(EXAMPLE_FOLDER, "nereid-tiny/onnx/vision_encoder.onnx");
  const output = join(models, "vision_encoder/1/model.onnx");
  await runNode([NEREID, "onnx", "quantize", "--quiet", "--samples", "1", "--input", original, "--output", output]);
  assert.ok(readFileSync(output).length < readFileSync(original).length / 2);
  const server = await startVisionServer({
    ...repository,
    repositories: [models, ...repository.repositories.slice(1)],
  });
  try {
    const answers = await mapSome(scenes, 8, async ({ index }) => {
      const path = `${EXAMPLE_FOLDER}nereid-tiny/images/scene_${String(index).padStart(2, "0")}.png`;
      const body = { image: readFileSync(path).toString("base64"), text_input: "Describe the image.", max_tokens: 40 };
      return String((await generate(server, "vlm", body)).text_output).trim();
    });
    const same = answers.filter((answer, i) => answer === scenes[i]?.generated).length;
    context.diagnostic(`${same} of ${scenes.length} captions`);
    assert.ok(same >= LEAST_SAME, `${same} of ${scenes.length}`);
    await server.stop();
  } finally {
    await server.kill();
  }
});
