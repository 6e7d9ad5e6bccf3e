/** Nereid's step runner, called without engine or server. */
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { contiguousBlocks, stepOf, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { type Runner, type Setup, serveJobs, someTokens } from "./worker-protocol.ts";

const BLOCK_SIZE = 16;

async function open({ modelPath, format, numThreads, maxBatch, maxContext }: Setup): Promise<Runner> {
  const blocks = Math.ceil(maxContext / BLOCK_SIZE);
  const runner = await createDecoderRunner({
    modelDir: modelPath,
    blockSize: BLOCK_SIZE,
    numBlocks: blocks * maxBatch,
    numThreads,
    cacheType: "f16",
    weightType: format === "bf16" ? format : undefined, // blocks stay as they are stored
  });
  const sequencesOf = (count: number): TestSequence[] =>
    Array.from({ length: count }, (_, i) => new TestSequence(contiguousBlocks(i * blocks, blocks)));
  const append = async (sequences: readonly TestSequence[], tokens: readonly number[]): Promise<number> => {
    const parts = sequences.map((sequence) => ({ sequence, tokens }));
    const startMs = performance.now();
    await runner.run(stepOf(runner, parts));
    const ms = performance.now() - startMs;
    for (const sequence of sequences) sequence.numCached += tokens.length;
    return ms;
  };
  return async (job) => {
    if (job.kind === "generate") throw new Error("only steps are timed here");
    if (job.kind === "prefill") {
      return [await append(sequencesOf(1), someTokens(job.numTokens))];
    }
    const sequences = sequencesOf(job.batch);
    for (const sequence of sequences) await append([sequence], someTokens(job.context));
    const times: number[] = [];
    for (let step = 0; step < job.numSteps; step++) times.push(await append(sequences, [777]));
    return times;
  };
}

serveJobs(open);
