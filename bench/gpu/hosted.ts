/** The recorded texts through an engine in a process of its own, as a server runs it: one that uses a GPU. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import type { EngineSpec } from "../../server/src/engine/engine-spec.ts";
import { NEUTRAL_REQUEST } from "../../server/src/engine/generate.ts";
import { EngineHost } from "../../server/src/engine/host/engine-host.ts";
import type { Logger } from "../../server/src/observe/log.ts";

interface GoldenText {
  readonly input_ids: readonly number[];
  readonly output_ids: readonly number[];
}

const tell = (_area: string, message: string): void => console.log(`  ${message.trim()}`);
const log = { error: tell, warn: tell, info: tell, verbose: () => undefined } as unknown as Logger;

/** How many texts come out as recorded, and how many do when penalties keep the choice of tokens on the host. */
export async function generateHosted(folder: string, weightType: "f32" | "bf16"): Promise<readonly [number, number]> {
  const spec: EngineSpec = {
    modelDir: join(folder, "language_model"),
    engine: DEFAULT_ENGINE_CONFIG,
    kvCacheTokens: 8192,
    numThreads: 0,
    weightType,
    gpu: { ordinal: 0, matrices: undefined },
  };
  const entry = join(dirname(fileURLToPath(import.meta.url)), "host.mjs");
  const host = await EngineHost.start({ name: "tiny", spec, log, entry });
  console.log(JSON.stringify(host.info));
  const golden = JSON.parse(readFileSync(join(folder, "golden_text.json"), "utf8")) as readonly GoldenText[];
  const chosenThere = await countSame(host, golden, {});
  const chosenHere = await countSame(host, golden, { topLogProbs: 1, logProbs: true });
  console.log(JSON.stringify(host.stats()));
  await host.close();
  return [chosenThere, chosenHere];
}

async function countSame(host: EngineHost, golden: readonly GoldenText[], changes: object): Promise<number> {
  const same = await Promise.all(
    golden.map(async ({ input_ids, output_ids }) => {
      const tokens: number[] = [];
      const promptTokens = Int32Array.from(input_ids);
      const request = { ...NEUTRAL_REQUEST, promptTokens, maxTokens: output_ids.length, ...changes };
      for await (const chunk of host.generate(request)) tokens.push(...chunk.tokenIds);
      return String(tokens) === String(output_ids);
    }),
  );
  return same.filter(Boolean).length;
}
