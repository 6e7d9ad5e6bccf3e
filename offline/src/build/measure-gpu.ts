/** Runs a model on a GPU with steps of every size, to find the fastest GEMM algorithm of each. */
import type { KnownGemm } from "@nereid/server/device/cuda/dense-gemm";
import { createCudaRunner, cudaTarget } from "@nereid/server/engine/cuda/create-runner";
import { promptName, rowSizes } from "@nereid/server/engine/cuda/warm-up-plan";
import { WarmUpStore } from "@nereid/server/engine/cuda/warm-up-store";
import { IsolatedRank } from "@nereid/server/engine/ranks/isolated-rank";
import type { StepInput } from "@nereid/server/engine/step-runner";
import type { EngineHeader, EngineTarget } from "@nereid/server/formats/trtllm/engine-header";
import type { RankMapping } from "@nereid/server/formats/trtllm/rank-mapping";
import type { Reporter } from "@nereid/server/files/progress";

export interface MeasureGpuOptions {
  readonly modelDir: string;
  readonly ordinal: number;
  readonly matrices: EngineHeader["matrices"];
  /** With several GPUs, the measured shape is one rank's share. */
  readonly mapping: RankMapping;
  /** Maximum rows of one step. */
  readonly maxTokens: number;
  readonly maxSequences: number;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

export interface MeasuredGpu {
  readonly target: EngineTarget;
  readonly products: readonly KnownGemm[];
  /** The chosen algorithms, by shape. */
  readonly times: ReadonlyMap<string, { readonly bestUs: number; readonly firstUs: number; readonly count: number }>;
}

const BLOCK_SIZE = 32;

/** @throws Error naming the missing library, GPU or tensor */
export async function measureGpu(options: MeasureGpuOptions): Promise<MeasuredGpu> {
  const { modelDir, ordinal, matrices, mapping, maxTokens, maxSequences, reporter, signal } = options;
  const numBlocks = maxSequences + Math.ceil(maxTokens / BLOCK_SIZE) + 1;
  const sizes = { blockSize: BLOCK_SIZE, numBlocks, maxTokens, maxSequences };
  const tell = (line: string): void => reporter.info(line);
  const layout = { numTensorRanks: mapping.tensorParallel, numStages: mapping.pipelineParallel };
  const isAlone = layout.numTensorRanks * layout.numStages === 1;
  const store = new WarmUpStore({ adopts: false });
  const runner = await createCudaRunner(
    { modelDir, ordinal, matrixType: matrices, ...sizes, usesGraphs: false, tell, store },
    isAlone ? undefined : () => new IsolatedRank(layout),
  );
  try {
    const steps = stepSizes(maxTokens, maxSequences, runner.maxPositions);
    const task = reporter.startTask({ task: "measure", unit: "sizes", total: steps.length });
    try {
      for (const [numSequences, length] of steps) {
        signal.throwIfAborted();
        await runner.run(stepOf(numSequences, length));
        task.add(1, `${numSequences} x ${length}`);
      }
    } finally {
      task.end();
    }
    store.save(steps.filter(([numSequences]) => numSequences === 1).map(([, length]) => promptName(length)));
    const { known, measuredUs } = runner.gemms;
    return { target: cudaTarget(runner.device), products: known, times: measuredUs };
  } finally {
    await runner.close();
  }
}

/** Sequences and tokens of each: decode steps of every batch size, and prompts of each length. */
export function stepSizes(
  maxTokens: number,
  maxSequences: number,
  maxPositions: number,
): readonly (readonly [numSequences: number, length: number])[] {
  const replies = rowSizes(Math.min(maxSequences, maxTokens)).map((rows) => [rows, 1] as const);
  const prompts = rowSizes(Math.min(maxTokens, maxPositions)).map((rows) => [1, rows] as const);
  return [...replies, ...prompts.slice(1)];
}

function stepOf(numSequences: number, length: number): StepInput {
  const numTokens = numSequences * length;
  const perSequence = Math.ceil(length / BLOCK_SIZE);
  const positions = Int32Array.from({ length: numTokens }, (_, i) => i % length);
  const slots = positions.map((position, i) => Math.floor(i / length) * perSequence * BLOCK_SIZE + position);
  const sequences = Array.from({ length: numSequences }, (_, i) => ({
    queryStart: i * length,
    queryLength: length,
    contextLength: length,
    blockTable: Int32Array.from({ length: perSequence }, (__, block) => i * perSequence + block),
  }));
  const logitRows = Int32Array.from(sequences, ({ queryStart }) => queryStart + length - 1);
  return { tokenIds: new Int32Array(numTokens), positions, slots, sequences, logitRows };
}
