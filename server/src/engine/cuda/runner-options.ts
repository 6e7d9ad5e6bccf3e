/** Translates an engine spec to the options of a GPU runner. Pure. */
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import { DEFAULT_ADAPTERS } from "../adapters/adapter-choice.ts";
import type { EngineSpec, GpuMatrices, GpuSpec, KvCacheSpec } from "../engine-spec.ts";
import type { CudaRunnerOptions } from "./create-runner.ts";

/** Tokens of a cache block. Larger ones than on a CPU: a table of them crosses to the device with every step. */
const BLOCK_SIZE = 32;

/** @throws ServerError for what a GPU does not do */
export function cudaRunnerOptions(
  spec: EngineSpec,
  { ordinal, matrices, quantizesOutput }: Pick<GpuSpec, "ordinal" | "matrices" | "quantizesOutput">,
  tell: (line: string) => void,
): CudaRunnerOptions {
  expectServed(spec);
  const { engine, kvCache, kvCacheTokens, weightType } = spec;
  return {
    modelDir: spec.modelDir,
    ordinal,
    type: weightType === "f32" ? "f32" : "bf16",
    matrixType: matrixTypeOf(matrices, weightType),
    quantizesOutput,
    cacheType: cacheTypeOf(kvCache),
    blockSize: BLOCK_SIZE,
    numBlocks: kvCacheTokens > 0 ? Math.max(2, Math.floor(kvCacheTokens / BLOCK_SIZE)) : 0,
    memoryShare: kvCache?.freeFraction,
    hostBytes: hostBytesOf(spec, tell),
    adapters: spec.adapters ?? DEFAULT_ADAPTERS,
    beside: spec.draftModelDir === undefined ? undefined : draftOptions(spec, { ordinal, matrices }, 0),
    // Without chunks a prompt is one step, whatever its length.
    maxTokens: engine.chunkedPrefill ? engine.maxBatchTokens : Math.max(engine.maxBatchTokens, MAX_WHOLE_PROMPT),
    maxSequences: engine.maxSequences,
    isDeterministic: spec.isDeterministic,
    attentionWindows: kvCache?.attentionWindows,
    tell,
  };
}

/** Options of the other GPUs that run the model. Data beside the model is on the first GPU only. */
export function followerOptions(leader: CudaRunnerOptions, ordinal: number): CudaRunnerOptions {
  return { ...leader, ordinal, beside: undefined, tell: undefined, store: undefined };
}

const MAX_WHOLE_PROMPT = 16_384;

/** Options of the draft model, which has as many blocks as the target model, so that it can follow every sequence. */
export function draftOptions(
  { draftModelDir = "", weightType, engine, kvCache }: EngineSpec,
  { ordinal, matrices }: Pick<GpuSpec, "ordinal" | "matrices">,
  numBlocks: number,
): CudaRunnerOptions {
  return {
    modelDir: draftModelDir,
    ordinal,
    type: weightType === "f32" ? "f32" : "bf16",
    matrixType: matrixTypeOf(matrices, weightType),
    cacheType: cacheTypeOf(kvCache),
    blockSize: BLOCK_SIZE,
    numBlocks,
    maxTokens: engine.maxBatchTokens,
    maxSequences: engine.maxSequences,
  };
}

/** FP8 if 8 bits are requested: q8_0 is their form on a CPU. */
function cacheTypeOf({ type, isFp8 }: Partial<KvCacheSpec> = {}): CudaRunnerOptions["cacheType"] {
  if (isFp8 === true || type === "q8_0") return "e4m3";
  return type === "f16" ? "f16" : undefined;
}

/** A host KV cache keeps what may be used again. */
function hostBytesOf({ kvCache, engine }: EngineSpec, tell: (line: string) => void): number {
  const { hostBytes = 0 } = kvCache ?? {};
  if (hostBytes === 0 || engine.prefixReuse) return hostBytes;
  tell("kv_cache_host_memory_bytes has no effect: blocks are not reused (enable_kv_cache_reuse)");
  return 0;
}

/** Undefined: as in the files, which may be INT4. */
function matrixTypeOf(
  matrices: GpuMatrices | undefined,
  weightType: EngineSpec["weightType"],
): CudaRunnerOptions["matrixType"] {
  if (matrices !== undefined) return matrices === "fp8" ? "e4m3" : matrices;
  return weightType === "bf16" ? "bf16" : undefined;
}

function expectServed({ weightType, kvCache }: EngineSpec): void {
  const hasFloats = weightType === undefined || weightType === "bf16" || weightType === "f32";
  if (!hasFloats) throw refused(`weight_type ${weightType}`, "bf16, f32, fp8 or int4");
  const { type } = kvCache ?? {};
  const isWide = type === "f32" && weightType !== "f32";
  if (isWide) throw refused("a cache of f32", "none given, f16 or 8 bits, or weight_type f32");
}

function refused(what: string, expected: string): ServerError {
  return invalidArgument(
    `on a GPU ${what} is not supported, expected ${expected}; an instance group of KIND_CPU serves it`,
  );
}
