/** Runs texts through a model on a GPU and accumulates statistics of the inputs of each linear layer. */
import { convertFloats } from "@nereid/server/device/cuda/convert-floats";
import type { DenseGemm } from "@nereid/server/device/cuda/dense-gemm";
import { createCudaRunner } from "@nereid/server/engine/cuda/create-runner";
import type { StepInput } from "@nereid/server/engine/step-runner";
import { type InputStats, StatsCollector, sitesByMatrix } from "../quantize/input-stats.ts";

export interface CalibrateGpuOptions {
  readonly modelDir: string;
  readonly ordinal: number;
  readonly numLayers: number;
  readonly pieces: readonly Int32Array[];
  onPiece(): void;
}

const BLOCK_SIZE = 32;
/** Fewer rows use skinny GEMM kernels, which are not observed. */
export const MIN_WATCHED_TOKENS = 32;

/** @throws Error when the GPU cannot run it, or some layers were not observed */
export async function calibrateOnGpu(options: CalibrateGpuOptions): Promise<ReadonlyMap<string, InputStats>> {
  const { modelDir, ordinal, numLayers, pieces, onPiece } = options;
  const longest = Math.max(MIN_WATCHED_TOKENS, ...pieces.map(({ length }) => length));
  const numBlocks = Math.ceil(longest / BLOCK_SIZE) + 1;
  const sizes = { blockSize: BLOCK_SIZE, numBlocks, maxTokens: longest, maxSequences: 1, usesGraphs: false };
  const runner = await createCudaRunner({ modelDir, ordinal, type: "bf16", matrixType: "bf16", ...sizes });
  try {
    const sites = sitesByMatrix(runner.layers, ({ address }) => address);
    const stats = new StatsCollector();
    runner.gemms.onGemm = watcher(sites, stats, (address, numBytes) => {
      const pinned = runner.device.pin(numBytes);
      try {
        runner.device.stream.copyToHost(pinned.address, address, numBytes);
        runner.device.stream.synchronize();
        return pinned.bytes.slice();
      } finally {
        pinned.close();
      }
    });
    for (const piece of pieces) {
      if (piece.length >= MIN_WATCHED_TOKENS) await runner.run(wholeStep(piece));
      onPiece();
    }
    const found = stats.finished();
    const missing = Array.from({ length: numLayers }, (_, layer) => `${layer} qkv`).find((key) => !found.has(key));
    if (missing !== undefined) throw new Error(`no GEMM of layer ${missing} was seen`);
    return found;
  } finally {
    await runner.close();
  }
}

/** Accumulates the input rows of a GEMM that belongs to a layer. */
export function watcher(
  sites: ReadonlyMap<DenseGemm["weight"], string>,
  stats: StatsCollector,
  read: (address: DenseGemm["x"], numBytes: number) => Uint8Array,
): (product: Pick<DenseGemm, "weight" | "x" | "rows" | "inputs" | "inputType">) => void {
  return ({ weight, x, rows, inputs, inputType }) => {
    const key = sites.get(weight);
    if (key === undefined || inputType !== "bf16") return;
    const halves = read(x, 2 * rows * inputs);
    const values = new Float32Array(rows * inputs);
    convertFloats("BF16", halves, "f32", new Uint8Array(values.buffer));
    stats.add(key, values, inputs);
  };
}

function wholeStep(tokenIds: Int32Array): StepInput {
  const { length } = tokenIds;
  const places = Int32Array.from({ length }, (_, i) => i);
  const blockTable = Int32Array.from({ length: Math.ceil(length / BLOCK_SIZE) }, (_, i) => i);
  const sequences = [{ queryStart: 0, queryLength: length, contextLength: length, blockTable }];
  // Request logits of every token, so that all tokens pass the last layer.
  return { tokenIds, positions: places, slots: places, sequences, logitRows: places };
}
