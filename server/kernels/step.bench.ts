/** Steps of nereid-tiny on the CPU: decode and prefill tokens per second, and the share of recording the graph. */
import { fileURLToPath } from "node:url";
import { createDecoderRunner, type DecoderCpuRunner, type DecoderRunnerOptions } from "../src/engine/cpu/cpu-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../src/engine/testing/sequences.ts";

const MODEL_DIR = fileURLToPath(new URL("../../examples/nereid-tiny/language_model/", import.meta.url));
const BLOCK_SIZE = 16;
const BLOCKS_PER_SEQUENCE = 40;
const MAX_BATCH = 64;
const PROMPT_TOKENS = 64;
const DECODE_STEPS = 100;
const PREFILL_TOKENS = 512;
const PREFILLS = 6;

interface Measured {
  readonly tokensPerSecond: number;
  readonly stepMs: number;
  readonly recordShare: number;
}

async function measure(
  runner: DecoderCpuRunner,
  numSteps: number,
  tokensPerStep: number,
  step: (i: number) => Promise<unknown>,
): Promise<Measured> {
  await step(0);
  const recordedMs = runner.timings.recordMs;
  const start = performance.now();
  for (let i = 1; i <= numSteps; i++) await step(i);
  const totalMs = performance.now() - start;
  return {
    tokensPerSecond: (numSteps * tokensPerStep * 1000) / totalMs,
    stepMs: totalMs / numSteps,
    recordShare: (runner.timings.recordMs - recordedMs) / totalMs,
  };
}

function tokensOf(count: number): number[] {
  return Array.from({ length: count }, (_, i) => 6 + ((i * 7919) % 6000));
}

/** Blocks side by side, or every other block of a range twice as long. */
function blocks(index: number, isScattered: boolean): number[] {
  const first = index * BLOCKS_PER_SEQUENCE;
  if (!isScattered) return contiguousBlocks(first, BLOCKS_PER_SEQUENCE);
  return contiguousBlocks(first, BLOCKS_PER_SEQUENCE).map((_, i) => first + ((i * 7) % BLOCKS_PER_SEQUENCE));
}

async function decode(runner: DecoderCpuRunner, batch: number, isScattered: boolean): Promise<Measured> {
  const sequences = Array.from({ length: batch }, (_, i) => new TestSequence(blocks(i, isScattered)));
  for (const sequence of sequences) await append(runner, [{ sequence, tokens: tokensOf(PROMPT_TOKENS) }]);
  return measure(runner, DECODE_STEPS, batch, (i) =>
    append(
      runner,
      sequences.map((sequence) => ({ sequence, tokens: [6 + i] })),
    ),
  );
}

async function prefill(runner: DecoderCpuRunner): Promise<Measured> {
  const tokens = tokensOf(PREFILL_TOKENS);
  return measure(runner, PREFILLS, PREFILL_TOKENS, () =>
    append(runner, [{ sequence: new TestSequence(blocks(0, false)), tokens }]),
  );
}

function print(name: string, { tokensPerSecond, stepMs, recordShare }: Measured): void {
  const share = `${(100 * recordShare).toFixed(1)} % recording`;
  console.log(
    `${name.padEnd(44)} ${tokensPerSecond.toFixed(0).padStart(7)} tok/s  ${stepMs.toFixed(2)} ms/step  ${share}`,
  );
}

async function run(options: Partial<DecoderRunnerOptions>): Promise<void> {
  const numBlocks = MAX_BATCH * BLOCKS_PER_SEQUENCE;
  const runner = await createDecoderRunner({ modelDir: MODEL_DIR, blockSize: BLOCK_SIZE, numBlocks, ...options });
  const mode = options.isDeterministic ? ", deterministic" : "";
  const name = `${options.numThreads} threads, ${options.weightType} weights${mode}`;
  for (const batch of [1, 8, MAX_BATCH]) print(`${name}, decode x ${batch}`, await decode(runner, batch, false));
  print(`${name}, decode x 8 scattered`, await decode(runner, 8, true));
  print(`${name}, prefill ${PREFILL_TOKENS}`, await prefill(runner));
  await runner.close();
}

for (const numThreads of [1, 2]) {
  for (const weightType of ["f32", "bf16", "f16"] as const) {
    for (const isDeterministic of [false, true]) await run({ numThreads, weightType, isDeterministic });
  }
}
