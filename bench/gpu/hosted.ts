/** The recorded texts through an engine in a process of its own, as a server runs it: one that uses a GPU. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { AdapterChoice } from "../../server/src/engine/adapters/adapter-choice.ts";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import type { EngineSpec, GpuSpec } from "../../server/src/engine/engine-spec.ts";
import { EngineHost } from "../../server/src/engine/host/engine-host.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import { readNpy } from "../../server/src/formats/tensors/npy.ts";
import type { TrtllmLora } from "../../server/src/formats/trtllm/lora.ts";
import type { Logger } from "../../server/src/observe/log.ts";

interface GoldenText {
  readonly input_ids: readonly number[];
  readonly output_ids: readonly number[];
}

const tell = (_area: string, message: string): void => console.log(`  ${message.trim()}`);
const log = { error: tell, warn: tell, info: tell, verbose: () => undefined } as unknown as Logger;

/** How many texts come out as recorded, and how many do when penalties keep the choice of tokens on the host. */
export async function generateHosted(
  folder: string,
  weightType: "f32" | "bf16",
  changes: Partial<EngineSpec> = {},
): Promise<readonly [number, number]> {
  const spec: EngineSpec = {
    modelDir: join(folder, "language_model"),
    engine: DEFAULT_ENGINE_CONFIG,
    kvCacheTokens: 8192,
    numThreads: 0,
    weightType,
    gpu: { ordinal: 0, matrices: undefined },
    ...changes,
  };
  const host = await startHost(spec);
  console.log(JSON.stringify(host.info));
  const golden = JSON.parse(readFileSync(join(folder, "golden_text.json"), "utf8")) as readonly GoldenText[];
  const chosenThere = await countSame(host, golden, {});
  const chosenHere = await countSame(host, golden, { topLogProbs: 1, logProbs: true });
  console.log(JSON.stringify(host.stats()));
  await host.close();
  return [chosenThere, chosenHere];
}

function startHost(spec: EngineSpec): Promise<EngineHost> {
  const entry = join(dirname(fileURLToPath(import.meta.url)), "host.mjs");
  return EngineHost.start({ name: "tiny", spec, log, entry });
}

/** The number that adapter `d` has in the folder of tasks, and another that requests bring it under. */
const [TASK, BROUGHT_TASK] = [7n, 2n ** 64n - 1n];
const TASK_ADAPTER = "d";

/**
 * Recorded texts with adapters of a model in f32, each asked for twice by the name of its folder, in memory for some of
 * them, and one by the number of a task: known from the start, brought by a request, and known from that. How many come
 * out as recorded, of how many.
 */
export async function generateAdapted(
  modelDir: string,
  adapters: string,
  tasks: string,
  gpu: GpuSpec,
): Promise<readonly [number, number]> {
  const names = readdirSync(adapters).sort();
  const folders = names.map((name) => [name, join(adapters, name)] as const);
  const spec: EngineSpec = {
    ...{ modelDir, engine: DEFAULT_ENGINE_CONFIG, kvCacheTokens: 8192, numThreads: 0, weightType: "f32", gpu },
    // Room for two at a time: they come and go.
    adapters: { folders, prefetch: tasks, maxBytes: 2 ** 18, maxRank: 16 },
  };
  const host = await startHost(spec);
  const { prompt } = readJson(join(modelDir, "expected.json"));
  const promptTokens = Int32Array.from(prompt ?? []);
  const expectedOf = (name: string): readonly number[] => readJson(join(adapters, name, "expected.json")).greedy;
  const isSame = async (adapter: AdapterChoice, name: string): Promise<boolean> => {
    const greedy = expectedOf(name);
    const request = { ...NEUTRAL_REQUEST, promptTokens, maxTokens: greedy.length, adapter };
    return String(await tokensOf(host, request)) === String(greedy);
  };
  const same = await Promise.all([
    ...[...names, ...names].map((name) => isSame({ kind: "name", text: name }, name)),
    isSame({ kind: "task", id: TASK }, TASK_ADAPTER),
    isSame({ kind: "task", id: BROUGHT_TASK, matrices: await readTask(join(tasks, String(TASK))) }, TASK_ADAPTER),
  ]);
  same.push(await isSame({ kind: "task", id: BROUGHT_TASK }, TASK_ADAPTER));
  await host.close();
  return [same.filter(Boolean).length, same.length];
}

async function readTask(folder: string): Promise<TrtllmLora> {
  const weights = await readNpy(join(folder, "model.lora_weights.npy"));
  const config = await readNpy(join(folder, "model.lora_config.npy"));
  if (!(weights.values instanceof Float32Array && config.values instanceof Int32Array)) {
    throw new Error(`${folder}: expected weights of 32-bit floats and a config of 32-bit integers`);
  }
  return { numRows: weights.shape[1] ?? 0, weights: weights.values, config: config.values };
}

function readJson(path: string): { readonly prompt?: readonly number[]; readonly greedy: readonly number[] } {
  return JSON.parse(readFileSync(path, "utf8")) as ReturnType<typeof readJson>;
}

async function tokensOf(host: EngineHost, request: GenerateRequest): Promise<readonly number[]> {
  const tokens: number[] = [];
  for await (const chunk of host.generate(request)) tokens.push(...chunk.tokenIds);
  return tokens;
}

async function countSame(host: EngineHost, golden: readonly GoldenText[], changes: object): Promise<number> {
  const same = await Promise.all(
    golden.map(async ({ input_ids, output_ids }) => {
      const promptTokens = Int32Array.from(input_ids);
      const request = { ...NEUTRAL_REQUEST, promptTokens, maxTokens: output_ids.length, ...changes };
      return String(await tokensOf(host, request)) === String(output_ids);
    }),
  );
  return same.filter(Boolean).length;
}
