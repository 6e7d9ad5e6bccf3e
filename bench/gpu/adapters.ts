/**
 * Adapters on a GPU: the recorded ones of Hugging Face peft, each by itself and several in one batch, and what they cost a
 * step of a model with the shapes of 8 billion weights.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { maxDifference, randomFloats } from "../../server/kernels/testing/run-op.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { append, argmax, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import type { LoraChange } from "../../server/src/formats/lora/lora-adapter.ts";
import { readPeft } from "../../server/src/formats/lora/peft.ts";
import { createRanks } from "./ranks.ts";

interface Expected {
  readonly prompt?: readonly number[];
  readonly greedy: readonly number[];
  readonly logits: readonly (readonly number[])[];
}

export interface AdapterResult {
  readonly model: string;
  readonly type: "f32" | "bf16";
  readonly usesGraphs: boolean;
  readonly numAdapters: number;
  readonly aloneOff: number;
  /** Beside a sequence that has none. */
  readonly togetherOff: number;
  readonly numWrong: number;
  readonly numSteps: number;
}

const BLOCKS = 8;
const ROOM = { maxBytes: 2 ** 26, maxRank: 64 };
const read = (path: string): Expected => JSON.parse(readFileSync(path, "utf8")) as Expected;

export async function followAdapters(
  models: string,
  adapters: string,
  filter: RegExp,
  ranks: string,
): Promise<readonly AdapterResult[]> {
  const results: AdapterResult[] = [];
  for (const model of readdirSync(adapters).sort()) {
    if (!filter.test(model) || !existsSync(join(models, model))) continue;
    for (const [type, usesGraphs] of [
      ["f32", false],
      ["f32", true],
      ["bf16", true],
    ] as const) {
      const places = { modelDir: join(models, model), folder: join(adapters, model), ranks };
      results.push({ model, ...(await followModel(places, type, usesGraphs)) });
    }
  }
  return results;
}

async function followModel(
  { modelDir, folder, ranks }: { readonly modelDir: string; readonly folder: string; readonly ranks: string },
  type: "f32" | "bf16",
  usesGraphs: boolean,
): Promise<Omit<AdapterResult, "model">> {
  const sizes = { blockSize: 16, numBlocks: 10 * BLOCKS, maxTokens: 1024, maxSequences: 16 };
  const runner = await createRanks(ranks, { modelDir, type, usesGraphs, adapters: ROOM, ...sizes });
  const memory = runner.adapters;
  if (memory === undefined) throw new Error("a runner without adapters");
  const base = read(join(modelDir, "expected.json"));
  const names = readdirSync(folder).sort();
  const wanted = [base, ...names.map((name) => read(join(folder, name, "expected.json")))];
  const ids: (number | undefined)[] = [undefined];
  for (const name of names) ids.push(await memory.load(await readPeft(join(folder, name), memory.targets)));
  const alone: Followed[] = [];
  for (const [i, id] of ids.entries())
    alone.push(await follow(runner, base.prompt ?? [], [id], wanted.slice(i, i + 1)));
  const together = await follow(runner, base.prompt ?? [], ids, wanted);
  for (const id of ids) if (id !== undefined) memory.unload(id);
  await runner.close();
  const all = [...alone, together];
  return {
    ...{ type, usesGraphs, numAdapters: names.length },
    aloneOff: Math.max(...alone.map(({ off }) => off)),
    togetherOff: together.off,
    numWrong: all.reduce((sum, { numWrong }) => sum + numWrong, 0),
    numSteps: all.reduce((sum, { numSteps }) => sum + numSteps, 0),
  };
}

interface Followed {
  readonly off: number;
  readonly numWrong: number;
  readonly numSteps: number;
}

/** Prompts in two chunks of different lengths, then the recorded tokens one by one. */
async function follow(
  runner: StepRunner,
  prompt: readonly number[],
  ids: readonly (number | undefined)[],
  wanted: readonly Expected[],
): Promise<Followed> {
  const sequences = ids.map((id, i) => new TestSequence(contiguousBlocks(i * BLOCKS, BLOCKS), id));
  let [off, numWrong, numSteps] = [0, 0, 0];
  let parts = sequences.map((sequence, i) => ({ sequence, tokens: prompt.slice(0, 2 + i) }));
  await append(runner, parts);
  parts = sequences.map((sequence, i) => ({ sequence, tokens: prompt.slice(2 + i) }));
  const length = Math.min(...wanted.map(({ logits }) => logits.length));
  for (let step = 0; step < length; step++) {
    const rows = await append(runner, parts.toReversed());
    for (const [i, row] of rows.toReversed().entries()) {
      const { logits, greedy } = wanted[i] ?? { logits: [], greedy: [] };
      off = Math.max(off, maxDifference(row, logits[step] ?? []));
      numSteps += 1;
      if (argmax(row) !== greedy[step]) numWrong += 1;
    }
    parts = sequences.map((sequence, i) => ({ sequence, tokens: [wanted[i]?.greedy[step] ?? 0] }));
  }
  return { off, numWrong, numSteps };
}

/** Adapters of all linear layers, with random numbers: the same in all, each in memory of its own. */
export async function loadRandomAdapters(runner: StepRunner, count: number, rank: number): Promise<number[]> {
  const memory = runner.adapters;
  if (memory === undefined) throw new Error("a runner without adapters");
  const { targets } = memory;
  const matrices = [...targets.modules.values()].map((target, i) => {
    const a = randomFloats(rank * target.inputs, i + 1);
    return { target, rank, a, b: new Float32Array(rank * target.outputs).fill(1e-3) };
  });
  const changes = Array.from({ length: targets.numLayers }, (_, layer) =>
    matrices.map((change): LoraChange => ({ layer, ...change })),
  ).flat();
  const ids: number[] = [];
  for (let i = 0; i < count; i++) ids.push(await memory.load({ changes }));
  return ids;
}
