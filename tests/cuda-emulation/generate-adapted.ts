/** Requests of one engine with an adapter each, beside what Hugging Face peft gives for them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { AdapterChoice, AdapterSpec } from "../../server/src/engine/adapters/adapter-choice.ts";
import { AdapterLibrary } from "../../server/src/engine/adapters/adapter-library.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { engineOf, generateTokens, greedyRequest } from "../../server/src/engine/testing/generation.ts";
import { readNpy } from "../../server/src/formats/tensors/npy.ts";

const PARITY = fileURLToPath(new URL("../parity/", import.meta.url));
const ADAPTERS = `${PARITY}adapters/llama-3.2`;
const NUM_TOKENS = 2;

export interface AdaptedTexts {
  readonly texts: readonly (readonly number[])[];
  readonly wanted: readonly (readonly number[])[];
  /** Adapters that are in memory in the end. */
  readonly numLoaded: number;
}

/** By name, and as a task with its matrices. Takes the runner of llama-3.2 over. */
export async function generateAdapted(
  runner: StepRunner,
  room: Pick<AdapterSpec, "maxBytes" | "maxRank">,
): Promise<AdaptedTexts> {
  assert.ok(runner.adapters);
  const adapters = await AdapterLibrary.open(runner.adapters, { folders: [], root: ADAPTERS, ...room });
  const engine = engineOf(runner, {}, { adapters });
  const weights = await readNpy(`${PARITY}tasks/7/model.lora_weights.npy`);
  const config = await readNpy(`${PARITY}tasks/7/model.lora_config.npy`);
  assert.ok(weights.values instanceof Float32Array && config.values instanceof Int32Array);
  const matrices = { numRows: weights.shape[1] ?? 0, weights: weights.values, config: config.values };
  const base = readExpected(`${PARITY}models/llama-3.2`);
  const choices: readonly (AdapterChoice | undefined)[] = [
    { kind: "task", id: 7n, matrices },
    { kind: "name", text: "b" },
    undefined,
    { kind: "name", text: "c" },
  ];
  const request = greedyRequest(base.prompt, NUM_TOKENS);
  const texts = await generateTokens(
    engine,
    choices.map((adapter) => ({ ...request, adapter })),
  );
  const expected = ["d", "b", undefined, "c"].map((name) =>
    name === undefined ? base : readExpected(`${ADAPTERS}/${name}`),
  );
  const wanted = expected.map(({ greedy }) => greedy.slice(0, NUM_TOKENS));
  const numLoaded = adapters.cache.keys.length;
  await engine.close();
  return { texts, wanted, numLoaded };
}

function readExpected(folder: string): { readonly prompt: readonly number[]; readonly greedy: readonly number[] } {
  return JSON.parse(readFileSync(`${folder}/expected.json`, "utf8")) as ReturnType<typeof readExpected>;
}
