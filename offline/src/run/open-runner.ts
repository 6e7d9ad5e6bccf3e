/** Opens a model on the device of a tool. It knows no command line. */

import { createDecoderRunner } from "@nereid/server/engine/cpu/cpu-runner";
import { createCudaRunner } from "@nereid/server/engine/cuda/create-runner";
import type { StepRunner } from "@nereid/server/engine/step-runner";
import type { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import { deviceName, type ToolDevice } from "./tool-device.ts";

export interface OpenRunnerOptions {
  readonly modelDir: string;
  readonly device: ToolDevice;
  /** Concurrent sequences. */
  readonly maxSequences: number;
  /** Tokens of the longest sequence. */
  readonly maxSequenceTokens: number;
  /** Tokens of one step. */
  readonly maxStepTokens: number;
  readonly reporter?: Pick<Reporter, "info" | "warn"> | undefined;
}

/** Small blocks waste little; on a GPU a table of them is copied to the device with every step. */
const BLOCK_SIZES = { cpu: 16, cuda: 32 } as const;

/** @throws ToolError or Error naming what is missing */
export async function openRunner(options: OpenRunnerOptions): Promise<StepRunner> {
  const { device, reporter } = options;
  if (device.kind === "cpu") return openOnCpu(options);
  try {
    return await openOnGpu(options, device.ordinal);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    if (!device.isOptional) {
      throw new ToolError(`${deviceName(device)} cannot run it: ${reason}`, { cause, fix: "Give --device cpu" });
    }
    reporter?.warn(`${deviceName(device)} cannot run it, so the CPU does: ${reason}`);
    return openOnCpu(options);
  }
}

function openOnCpu({ modelDir, maxSequences, maxSequenceTokens }: OpenRunnerOptions): Promise<StepRunner> {
  const blockSize = BLOCK_SIZES.cpu;
  return createDecoderRunner({ modelDir, blockSize, numBlocks: blocksFor(maxSequences, maxSequenceTokens, blockSize) });
}

function openOnGpu(
  { modelDir, maxSequences, maxSequenceTokens, maxStepTokens, reporter }: OpenRunnerOptions,
  ordinal: number,
): Promise<StepRunner> {
  const blockSize = BLOCK_SIZES.cuda;
  return createCudaRunner({
    modelDir,
    ordinal,
    blockSize,
    numBlocks: blocksFor(maxSequences, maxSequenceTokens, blockSize),
    maxTokens: maxStepTokens,
    maxSequences,
    tell: (line) => reporter?.info(line),
  });
}

function blocksFor(maxSequences: number, maxSequenceTokens: number, blockSize: number): number {
  return Math.max(2, (Math.ceil(maxSequenceTokens / blockSize) + 1) * maxSequences);
}
