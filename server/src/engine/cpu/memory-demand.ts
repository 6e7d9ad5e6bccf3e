/** Counts what a decoder needs on the CPU device, from its files' headers: no weight is read. */
import { CPU_TYPE_BYTES, numElements } from "../../device/cpu/cpu-tensor.ts";
import { freeMemory } from "../../device/cpu/free-memory.ts";
import { openModelFiles } from "../../formats/hf/model-files.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import { isPackedTensors } from "../../formats/trtllm/engine-file.ts";
import type { DecoderConfig } from "../../models/config/decoder-config.ts";
import { kvBytesPerToken } from "../../models/config/kv-bytes.ts";
import { narrowWindows, widestWindow } from "../../models/config/layer-windows.ts";
import { type ParsedDecoder, parseDecoderConfig } from "../../models/config/parse-decoder-config.ts";
import { stateBytes } from "../../models/config/recurrent-shape.ts";
import { packedName } from "../../models/cpu/weights.ts";
import { listWeights } from "../../models/weights/weight-list.ts";
import type { WeightPlan } from "../../models/weights/weight-plan.ts";
import { chooseType, weightTypeOf } from "../../models/weights/weight-types.ts";
import { numSnapshotsOf } from "../engine-config.ts";
import type { EngineSpec } from "../engine-spec.ts";
import { peakBlocks } from "../kv/window-blocks.ts";
import { type MemoryDemand, type MemoryPlan, planMemory } from "../plan/memory-plan.ts";
import { draftHeadDemand, findDraftHead } from "./draft-head.ts";
import { memoryBytesPerRow } from "./encoder-memory.ts";
import { expectFittingHeads } from "./kv-cache.ts";

/** Growth of the processes while they serve, and the pages of programs and libraries that must stay (bench/results/fit.md). */
const PROCESS_BYTES: number = 128 * 2 ** 20;

/**
 * `freeBytes`: for the model alone; by default what the processes leave of the free memory.
 * @throws ServerError when the engine does not fit, Error when the files are not those of a model
 */
export async function planCpuMemory(
  spec: EngineSpec,
  blockSize: number,
  freeBytes: number = Math.max(0, freeMemory() - PROCESS_BYTES),
): Promise<MemoryPlan> {
  const { bytes = 0, freeFraction, hostBytes = 0 } = spec.kvCache ?? {};
  const { window, config, ...model } = await modelDemand(spec, blockSize);
  const demand = await withDrafts(model, spec, config, blockSize);
  const whyNoHost = hostBytes > 0 ? withoutHostKv(spec, window) : undefined;
  const usedHostBytes = whyNoHost === undefined ? hostBytes : 0;
  const plan = planMemory(
    demand,
    { tokens: spec.kvCacheTokens, bytes, freeFraction, hostBytes: usedHostBytes },
    freeBytes,
  );
  return whyNoHost === undefined ? plan : { ...plan, lines: [...plan.lines, whyNoHost] };
}

/** Why a host KV cache would stay empty; undefined when it would not. */
function withoutHostKv({ engine }: EngineSpec, window: number | undefined): string | undefined {
  if (!engine.prefixReuse)
    return "kv_cache_host_memory_bytes has no effect: blocks are not reused (enable_kv_cache_reuse)";
  if (window === undefined) return undefined;
  return `kv_cache_host_memory_bytes has no effect: all layers have windows, of ${window} tokens at most, and let go of the rest`;
}

type ModelDemand = MemoryDemand & { readonly window: number | undefined; readonly config: DecoderConfig };

async function modelDemand(spec: EngineSpec, blockSize: number): Promise<ModelDemand> {
  const { files, tensors } = await openModelFiles(spec.modelDir);
  try {
    const parsed = parseDecoderConfig(files);
    const config = narrowWindows(parsed.config, spec.kvCache?.attentionWindows);
    return {
      ...cpuMemoryDemand({ ...parsed, config }, tensors, spec, blockSize),
      window: widestWindow(config),
      config,
    };
  } finally {
    await tensors.close();
  }
}

async function withDrafts(
  model: MemoryDemand,
  spec: EngineSpec,
  config: DecoderConfig,
  blockSize: number,
): Promise<MemoryDemand> {
  const headDir = await findDraftHead(spec);
  if (headDir === undefined)
    return spec.draftModelDir === undefined ? model : withDrafter(model, await drafterDemand(spec, blockSize));
  const { weightBytes, bytesPerToken } = await draftHeadDemand(headDir, config, spec.weightType);
  const items = model.items.map((item) =>
    item.what === "weights" ? { ...item, numBytes: item.numBytes + weightBytes } : item,
  );
  return { ...model, items, bytesPerToken: model.bytesPerToken + bytesPerToken };
}

/** Demand of the draft model, which has as many blocks as the target model, in f32. */
function drafterDemand(spec: EngineSpec, blockSize: number): Promise<MemoryDemand> {
  return modelDemand({ ...spec, modelDir: spec.draftModelDir ?? "", kvCache: undefined }, blockSize);
}

function withDrafter(model: MemoryDemand, drafter: MemoryDemand): MemoryDemand {
  return {
    ...model,
    items: model.items.map(({ what, numBytes }, i) => ({
      what,
      numBytes: numBytes + (drafter.items[i]?.numBytes ?? 0),
    })),
    bytesPerToken: model.bytesPerToken + drafter.bytesPerToken,
  };
}

export function cpuMemoryDemand(
  parsed: ParsedDecoder,
  tensors: TensorSource,
  { engine, weightType, kvCache }: EngineSpec,
  blockSize: number,
): MemoryDemand {
  const { config } = parsed;
  const cacheType = kvCache?.type ?? "f32";
  expectFittingHeads(config, cacheType);
  const bytesOf = (plan: WeightPlan): number => {
    if (isPackedTensors(tensors)) return tensors.tensors.get(packedName(plan))?.byteLength ?? 0;
    const stored = plan.sources.flatMap(({ name }) => weightTypeOf(tensors.tensors.get(name)?.dtype ?? "F32") ?? []);
    return numElements(plan.shape) * CPU_TYPE_BYTES[chooseType(plan, stored, weightType)];
  };
  const { plans } = listWeights(parsed, tensors);
  return {
    items: [
      { what: "weights", numBytes: plans.reduce((sum, plan) => sum + bytesOf(plan), 0) },
      { what: "workspace", numBytes: workspaceBytes(config, engine) },
      ...(config.recurrent === undefined
        ? []
        : [{ what: "states", numBytes: (engine.maxSequences + numSnapshotsOf(engine)) * stateBytes(config) }]),
    ],
    bytesPerToken: kvBytesPerToken(config, CPU_TYPE_BYTES[cacheType]),
    blockSize,
    longestTokens: blockSize * peakBlocks(config.maxPositions, { ...engine, blockSize, window: widestWindow(config) }),
    maxSequences: engine.maxSequences,
    encoderBytes: parsed.encoder && parsed.encoder.config.maxPositions * memoryBytesPerRow(config, cacheType),
  };
}

/**
 * Workspace of one step of the largest size: rows between the ops of a layer, of which few live at a time, and logits
 * twice.
 */
function workspaceBytes(
  { hiddenSize, numHeads, numKvHeads, headDim, mlp, vocabSize, maxPositions }: DecoderConfig,
  { maxBatchTokens, maxSequences }: EngineSpec["engine"],
): number {
  const attention = 2 * (numHeads + 2 * numKvHeads) * headDim;
  const perToken = 4 * (4 * hiddenSize + attention + 3 * mlp.intermediateSize);
  const masks = 2 * maxBatchTokens * Math.min(maxPositions, maxBatchTokens + 8192);
  return maxBatchTokens * perToken + masks + 2 * 4 * maxSequences * vocabSize;
}
