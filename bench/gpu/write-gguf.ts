/**
 * Tiny models as GGUF files in blocks of several types, with logits and tokens of the CPU's engine in float32, for `parity`
 * of `main.ts`: `node --conditions=nereid-source --import tsx bench/gpu/write-gguf.ts <folder>`.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { WeightType } from "../../server/src/device/cpu/convert-elements.ts";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { append, argmax, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { readTiny, toGguf } from "../../server/src/formats/gguf/tiny-gguf.test-support.ts";

const MODELS = fileURLToPath(new URL("../../tests/parity/models/", import.meta.url));
const PROMPT = [5, 9, 200, 31, 7, 88, 14];
const NUM_STEPS = 16;

/** As files have them: matrices of a layer are not always of one type. */
const MIXES: Readonly<Record<string, (name: string) => WeightType>> = {
  q4_0: () => "q4_0",
  q8_0: () => "q8_0",
  mixed: (name) => (name.includes("attn_v") ? "q5_0" : name.includes("ffn") ? "q4_1" : "q4_0"),
  f16: () => "f16",
};

const [folder = ".gpu/gguf"] = process.argv.slice(2);
for (const [model, architecture] of [
  ["llama-2", "llama"],
  ["qwen2", "qwen2"],
] as const) {
  const tiny = await readTiny(join(MODELS, model));
  for (const [mix, typeOf] of Object.entries(MIXES)) {
    const modelDir = join(folder, `${model}-${mix}`);
    mkdirSync(modelDir, { recursive: true });
    writeFileSync(join(modelDir, "model.gguf"), toGguf(tiny, architecture, typeOf));
    const sizes = { numBlocks: 8, blockSize: 16, numThreads: 1 };
    const runner = await createDecoderRunner({ modelDir, weightType: "f32", ...sizes });
    const sequence = new TestSequence(contiguousBlocks(0, 8));
    const greedy: number[] = [];
    const logits: number[][] = [];
    for (let step = 0; step < NUM_STEPS; step++) {
      const [row = new Float32Array()] = await append(runner, [
        { sequence, tokens: step === 0 ? PROMPT : greedy.slice(-1) },
      ]);
      logits.push([...row]);
      greedy.push(argmax(row));
    }
    await runner.close();
    writeFileSync(join(modelDir, "expected.json"), JSON.stringify({ prompt: PROMPT, greedy, logits }));
  }
}
