/**
 * Fit of a model on this machine's CPU, for each type of weights: memory, counted from the headers of its files, and the
 * rate of one answer, from measured times of its GEMMs. Attention, sampling and the way to the client are left out of the
 * rate, which is therefore an upper bound.
 */
import { availableProcessors } from "@nereid/server/device/cpu/available-processors";
import type { WeightType } from "@nereid/server/device/cpu/convert-elements";
import { CpuDevice } from "@nereid/server/device/cpu/cpu-device";
import { DenseGemms } from "@nereid/server/device/cpu/dense-gemm";
import { planCpuMemory } from "@nereid/server/engine/cpu/memory-demand";
import { DEFAULT_ENGINE_CONFIG } from "@nereid/server/engine/engine-config";
import { formatBytes } from "@nereid/server/files/progress-text";
import { typePlan } from "@nereid/server/models/cpu/weights";
import { listWeights } from "@nereid/server/models/weights/weight-list";
import { timeDecode, variantsOf } from "../../build/measure-gemms.ts";
import { openDecoder } from "../../checkpoint/open-decoder.ts";
import { textTable } from "../cli/text-table.ts";
import { BLOCK_SIZE, NARROWER } from "./describe-model.ts";

const MIB: number = 2 ** 20;
/** The engine's process without a model: code, heap and libraries (bench/results/fit.md). */
const PROCESS_BYTES: number = 98 * MIB;
/** Pages and buffers of ONNX Runtime, which computes GEMMs of matrices in f32 where there are few processors. */
const DENSE_GEMM_BYTES: number = 14 * MIB;

export interface Fit {
  /** Undefined: as the files have them. */
  readonly weightType: WeightType | undefined;
  /** The engine's process with weights, workspace and KV cache. Undefined: it does not fit. */
  readonly numBytes: number | undefined;
  /** Tokens of prompts and answers that the KV cache holds. */
  readonly cacheTokens: number;
  /** Rate of one answer. Undefined for experts, of which each token takes others, and where it does not fit. */
  readonly tokensPerSecond: number | undefined;
}

/** The engine's process with this model's types of weights, and without the model. */
export async function engineProcessBytes(modelDir: string, weightType: WeightType | undefined): Promise<number> {
  if (DenseGemms.for(availableProcessors()) === undefined) return PROCESS_BYTES;
  const { parsed, tensors } = await openDecoder(modelDir);
  try {
    const operands = listWeights(parsed, tensors).plans.filter(({ isGemmOperand }) => isGemmOperand);
    const hasFloats = operands.some((plan) => typePlan(plan, tensors, weightType).type === "f32");
    return PROCESS_BYTES + (hasFloats ? DENSE_GEMM_BYTES : 0);
  } finally {
    await tensors.close();
  }
}

/** Rows from the widest type to the narrowest. `freeBytes`: memory that the model may take. */
export async function fitOnCpu(
  modelDir: string,
  maxSequences: number,
  signal: AbortSignal,
  freeBytes?: number,
): Promise<readonly Fit[]> {
  const fits: Fit[] = [];
  for (const weightType of NARROWER) {
    signal.throwIfAborted();
    const engine = { ...DEFAULT_ENGINE_CONFIG, maxSequences };
    const plan = await planCpuMemory(
      { modelDir, engine, kvCacheTokens: 0, numThreads: 0, weightType },
      BLOCK_SIZE,
      freeBytes,
    ).catch(() => undefined);
    fits.push({
      weightType,
      numBytes: plan === undefined ? undefined : plan.numBytes + (await engineProcessBytes(modelDir, weightType)),
      cacheTokens: (plan?.numBlocks ?? 0) * BLOCK_SIZE,
      tokensPerSecond: plan === undefined ? undefined : await measureRate(modelDir, weightType),
    });
  }
  return fits;
}

/** The first row that fits is the one that `nereid serve` takes. */
export function fitTable(fits: readonly Fit[]): string {
  const chosen = fits.find(({ numBytes }) => numBytes !== undefined);
  const rows = fits.map((fit) => {
    const { weightType = "as stored", numBytes, cacheTokens, tokensPerSecond } = fit;
    if (numBytes === undefined) return [weightType, "does not fit", "", "", ""];
    const rate = tokensPerSecond === undefined ? "not measured" : tokensPerSecond.toPrecision(2);
    const tokens = `${cacheTokens} tokens`;
    return [weightType, formatBytes(numBytes), tokens, String(Number(rate) || rate), fit === chosen ? "chosen" : ""];
  });
  return textTable(["weights", "memory", "kv cache", "tokens/s at most", ""], rows);
}

async function measureRate(modelDir: string, weightType: WeightType | undefined): Promise<number | undefined> {
  const { parsed, tensors } = await openDecoder(modelDir);
  const device = new CpuDevice();
  try {
    const { plans, tree } = listWeights(parsed, tensors);
    const multiplied = plans.filter(({ isGemmOperand }) => isGemmOperand);
    const all = parsed.config.tieWordEmbeddings ? [...multiplied, tree.embedding] : multiplied;
    const usByKind = new Map<string, number>();
    let sumUs = 0;
    for (const plan of all) {
      const [rows = 0, columns = 0, more] = plan.shape;
      if (more !== undefined) return undefined;
      const { type } = typePlan(plan, tensors, weightType);
      const key = `${rows} ${columns} ${type}`;
      const [way] = variantsOf(device, type, [rows, columns]);
      const us = usByKind.get(key) ?? (way === undefined ? 0 : await timeDecode(device, [rows, columns], way));
      usByKind.set(key, us);
      sumUs += us;
    }
    return sumUs > 0 ? 1e6 / sumUs : undefined;
  } finally {
    await device.close();
    await tensors.close();
  }
}
