/** Decode steps of nereid-tiny with adapters: what rank 16 on all seven modules costs, for one adapter and for several. */
import { fileURLToPath } from "node:url";
import { createDecoderRunner, type DecoderCpuRunner } from "../../src/engine/cpu/cpu-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../../src/engine/testing/sequences.ts";
import type { LoraChange } from "../../src/formats/lora/lora-adapter.ts";
import { randomFloats } from "../testing/run-op.ts";

const MODEL_DIR = fileURLToPath(new URL("../../../examples/nereid-tiny/language_model/", import.meta.url));
const BLOCKS = 20;
const RANK = 16;
const NUM_STEPS = 150;
const PROMPT = Array.from({ length: 32 }, (_, i) => 6 + i);

async function loadAdapter({ adapters }: DecoderCpuRunner, seed: number): Promise<number> {
  const { targets } = adapters;
  const changes: LoraChange[] = [];
  for (let layer = 0; layer < targets.numLayers; layer++) {
    for (const target of targets.modules.values()) {
      const a = randomFloats(RANK * target.inputs, seed + layer);
      const b = randomFloats(RANK * target.outputs, seed + layer).map((value) => value * 1e-3);
      changes.push({ layer, target, rank: RANK, a, b });
    }
  }
  return adapters.load({ changes });
}

/** Milliseconds of a step of the fastest tenth, which pauses of neighbours do not touch, and of recording one. */
async function measure(runner: DecoderCpuRunner, ids: readonly (number | undefined)[]): Promise<[number, number]> {
  const sequences = ids.map((id, i) => new TestSequence(contiguousBlocks(i * BLOCKS, BLOCKS), id));
  await append(
    runner,
    sequences.map((sequence) => ({ sequence, tokens: PROMPT })),
  );
  const steps: number[] = [];
  const { recordMs } = runner.timings;
  for (let i = 0; i < NUM_STEPS; i++) {
    const start = performance.now();
    await append(
      runner,
      sequences.map((sequence) => ({ sequence, tokens: [6 + i] })),
    );
    steps.push(performance.now() - start);
  }
  steps.sort((a, b) => a - b);
  return [steps[Math.floor(NUM_STEPS / 10)] ?? 0, (runner.timings.recordMs - recordMs) / NUM_STEPS];
}

const runner = await createDecoderRunner({ modelDir: MODEL_DIR, blockSize: 16, numBlocks: 8 * BLOCKS, numThreads: 1 });
const ids: number[] = [];
for (let i = 0; i < 8; i++) ids.push(await loadAdapter(runner, 100 * i));
const [first] = ids;
const none = Array.from({ length: 8 }, () => undefined);
const MIXES: readonly (readonly [name: string, ids: readonly (number | undefined)[]])[] = [
  ["1 sequence, no adapter", [undefined]],
  ["1 sequence, an adapter", [first]],
  ["8 sequences, no adapter", none],
  ["8 sequences, one of them with an adapter", [first, ...none.slice(1)]],
  ["8 sequences, every other one with the same adapter", none.map((_, i) => (i % 2 === 0 ? first : undefined))],
  ["8 sequences, all with the same adapter", none.map(() => first)],
  ["8 sequences, each with another adapter", ids],
];
for (const [name, mix] of MIXES) {
  const [stepMs, recordMs] = await measure(runner, mix);
  console.log(`${name.padEnd(52)} ${stepMs.toFixed(2)} ms/step, ${recordMs.toFixed(2)} ms recording`);
}
await runner.close();
