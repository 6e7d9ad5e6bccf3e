import assert from "node:assert/strict";
import { copyFile, mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chooseEngine } from "./choose-engine.ts";

const MODELS = fileURLToPath(new URL("../../../tests/llama-cpp/models/", import.meta.url));
const OURS = fileURLToPath(new URL("../../../examples/nereid-tiny/language_model/", import.meta.url));
const folder = await mkdtemp(join(tmpdir(), "choose-engine-"));
after(() => rm(folder, { recursive: true }));

test("auto takes our engine where it knows the model, and libllama for other GGUF files, with the reason", async () => {
  const chosen = async (path: string): Promise<string> => {
    const { engine, reason } = await chooseEngine(path);
    return `${engine}: ${reason.replaceAll(MODELS, "")}`;
  };
  assert.equal(await chosen(OURS), "nereid: it reads files other than GGUF");
  assert.equal(await chosen(`${MODELS}llama.gguf`), "nereid: it knows the model");
  assert.match(
    await chosen(`${MODELS}mamba.gguf`),
    /^llama\.cpp: engine nereid does not know the model: mamba\.gguf: general\.architecture: expected .*, got mamba$/,
  );
});

test("auto takes libllama for a model that ours computes on the CPU only, where the instance has a GPU", async () => {
  assert.equal((await chooseEngine(`${MODELS}cohere2.gguf`)).engine, "nereid");
  const { engine, reason } = await chooseEngine(`${MODELS}cohere2.gguf`, "auto", true);
  assert.equal(engine, "llama.cpp");
  assert.match(reason, /GPU engine lacks: rotary positions of interleaved pairs/);
});

test("a named engine is taken, or refused with what it takes", async () => {
  const { engine, path } = await chooseEngine(`${MODELS}llama.gguf`, "llama.cpp");
  assert.deepEqual([engine, path], ["llama.cpp", `${MODELS}llama.gguf`]);
  assert.equal((await chooseEngine(`${MODELS}mamba.gguf`, "nereid")).engine, "nereid");
  await assert.rejects(chooseEngine(OURS, "llama.cpp"), {
    message:
      /^parameter 'engine' is 'llama\.cpp', which takes GGUF files, and there is none at .*language_model\/: convert/,
  });
});

test("a GGUF file beside a config.json serves what our engine does not know there", async () => {
  await writeFile(join(folder, "config.json"), '{"architectures": ["MambaForCausalLM"]}');
  await copyFile(`${MODELS}mamba.gguf`, join(folder, "model.gguf"));
  const { engine, path } = await chooseEngine(folder);
  assert.deepEqual([engine, path], ["llama.cpp", join(folder, "model.gguf")]);
});

test("a broken header is refused by its reader, whichever engine would follow", async () => {
  const path = join(folder, "broken.gguf");
  const bytes = await readFile(`${MODELS}mamba.gguf`);
  for (const [length, message] of [
    [3, /broken\.gguf: /],
    [2000, /broken\.gguf: /],
    [7000, /broken\.gguf: tensor ".*": expected its start within the file's 7000 bytes/],
  ] as const) {
    await writeFile(path, bytes);
    await truncate(path, length);
    await assert.rejects(chooseEngine(path), { message });
  }
});
