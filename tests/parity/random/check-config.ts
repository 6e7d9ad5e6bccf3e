/** Runs one recorded random configuration on the engine, and says how its answer differs from that of transformers. */
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createDecoderRunner } from "../../../server/src/engine/cpu/cpu-runner.ts";
import { append, argmax, contiguousBlocks, TestSequence } from "../../../server/src/engine/testing/sequences.ts";
import { promptOf, type RandomConfig, writeModel } from "./generated-model.ts";

/** Largest difference of logits in f32. Recorded logits have five decimals. */
const BOUND = 1e-4;
const NUM_GREEDY = 8;
const SHAPE = { numBlocks: 16, blockSize: 4, numThreads: 1 };
const DIGEST_CHARS = 12;

/** Fields whose values are drawn from all that transformers takes, and that are refused when the model loads. */
const REFUSALS: readonly RegExp[] = [
  /^refused: \/config\.json: hidden_act: expected one of .*, got "(relu|quick_gelu)"$/,
  /^refused: \/config\.json: (rope_parameters|rope_scaling): rope_type: expected .*, got "dynamic"$/,
  // Heads of one dimension, or an odd part of a head to rotate: no published model has them.
  /^refused: \/config\.json: head_dim: expected an even number, got \d+$/,
  /^refused: \/config\.json: (rope_parameters: )?partial_rotary_factor: expected an even part of a head of \d+, got [\d.]+$/,
];

export function isExpected(outcome: string): boolean {
  return outcome === "same" || REFUSALS.some((refusal) => refusal.test(outcome));
}

/** "same"; "refused: why" when the configuration does not load; else how the answer differs. */
export async function checkConfig(recorded: RandomConfig): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "nereid-random-"));
  try {
    writeModel(folder, recorded);
    return await compare(folder, recorded);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Names of the families that are recorded. */
export function families(): string[] {
  const files = readdirSync(fileURLToPath(new URL(".", import.meta.url)));
  return files.flatMap((file) => (file.endsWith(".json.gz") ? [file.replace(".json.gz", "")] : [])).sort();
}

async function compare(modelDir: string, recorded: RandomConfig): Promise<string> {
  let runner: Awaited<ReturnType<typeof createDecoderRunner>>;
  try {
    runner = await createDecoderRunner({ ...SHAPE, modelDir, maxPositions: servedPositions(recorded) });
  } catch (error) {
    return `refused: ${error instanceof Error ? error.message.replaceAll(modelDir, "") : String(error)}`;
  }
  try {
    const sequence = new TestSequence(contiguousBlocks(0, SHAPE.numBlocks));
    const chosen: number[] = [];
    const largest: number[] = [];
    let tokens = promptOf(recorded, Number(recorded.config.vocab_size));
    for (let step = 0; step < NUM_GREEDY; step += 1) {
      const [logits = new Float32Array()] = await append(runner, [{ sequence, tokens }]);
      const best = argmax(logits);
      largest.push(logits[best] ?? Number.NaN);
      chosen.push(best);
      tokens = [best];
    }
    return difference(recorded, chosen, largest);
  } finally {
    await runner.close();
  }
}

/** LongRoPE takes its factors by the length that is served: a recorded sequence lies on one side of the original length. */
function servedPositions({ config, prompt }: RandomConfig): number | undefined {
  const original = config.original_max_position_embeddings;
  return typeof original === "number" && prompt + NUM_GREEDY <= original ? original : undefined;
}

function difference({ ids, logits }: RandomConfig, chosen: readonly number[], largest: readonly number[]): string {
  const digest = createHash("sha256").update(chosen.join(",")).digest("hex").slice(0, DIGEST_CHARS);
  const off = Math.abs((largest[0] ?? Number.NaN) - logits[0]);
  if (!(off < BOUND)) return `the first logit is off by ${off.toExponential(1)}`;
  if (digest !== ids) return "other tokens";
  const offLast = Math.abs((largest.at(-1) ?? Number.NaN) - logits[1]);
  return offLast < BOUND ? "same" : `the last logit is off by ${offLast.toExponential(1)}`;
}
