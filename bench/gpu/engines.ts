/** Engine files on several GPUs: one GPU measures a rank's share of the GEMMs, and all read the file that comes of it. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildCudaEngine } from "../../offline/src/build/build-cuda-engine.ts";
import { convertCheckpoint } from "../../offline/src/checkpoint/convert-checkpoint.ts";
import { Reporter } from "../../server/src/files/progress.ts";
import { follow, readExpected } from "./parity.ts";
import { createRanks } from "./ranks.ts";

export interface EngineResult {
  readonly model: string;
  readonly ranks: string;
  /** When the engine was built. */
  readonly numMeasured: number;
  /** When it was served, by the leader. */
  readonly numMeasuredLater: number;
  readonly largestLogitDifference: number;
  readonly numWrong: number;
  readonly numSteps: number;
}

const MODEL = "llama-3.2";

/** `ranks`: GPUs that share each layer x stages, for which the checkpoint is split. */
export async function followEngine(models: string, ranks: string): Promise<EngineResult> {
  const [tpSize = 1, ppSize = 1] = ranks.split("x").map(Number);
  const folder = await mkdtemp(join(tmpdir(), "engine-"));
  const [modelDir, checkpointDir, outputDir] = [
    join(models, MODEL),
    join(folder, "checkpoint"),
    join(folder, "engine"),
  ];
  const shared = { reporter: new Reporter({ mode: "quiet", command: "build" }), signal: new AbortController().signal };
  try {
    const mapping = { tpSize, ppSize, embeddingSplit: "none" } as const;
    await convertCheckpoint({
      modelDir,
      outputDir: checkpointDir,
      dtype: "auto",
      mapping,
      weightOnly: undefined,
      ...shared,
    });
    const sizes = { maxTokens: 128, maxSequences: 4 };
    const build = { ordinal: 0, matrices: undefined, buildConfig: {}, ...sizes, ...shared };
    const { products } = await buildCudaEngine({ checkpointDir, outputDir, ...build });
    const runner = await createRanks(ranks, {
      modelDir: outputDir,
      type: "bf16",
      blockSize: 16,
      numBlocks: 16,
      ...sizes,
    });
    const followed = await follow(runner, readExpected(modelDir));
    const numMeasuredLater = runner.gemms.measuredUs.size;
    await runner.close();
    return { model: MODEL, ranks, numMeasured: products.length, numMeasuredLater, ...followed };
  } finally {
    await rm(folder, { recursive: true });
  }
}
