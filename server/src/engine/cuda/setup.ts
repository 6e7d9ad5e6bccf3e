/**
 * Puts a decoder on a GPU: allocates what the plan has counted, and loads. It runs no step.
 */
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import type { CudaBuffer } from "../../device/cuda/cuda-memory.ts";
import { CUDA_TYPE_BYTES, cudaTensorBytes, layOut } from "../../device/cuda/cuda-tensor.ts";
import { placeRegions } from "../../device/cuda/regions.ts";
import type { LoraTargets } from "../../formats/lora/lora-adapter.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { DecoderConfig } from "../../models/config/decoder-config.ts";
import { widestWindow } from "../../models/config/layer-windows.ts";
import type { ParsedDecoder } from "../../models/config/parse-decoder-config.ts";
import { hasThreeAxes } from "../../models/config/rope-axes.ts";
import { type RopeFactors, ropeFactors } from "../../models/config/rope-factors.ts";
import type { CudaActivations } from "../../models/cuda/memory.ts";
import type { CudaDecoderModel, CudaLayerCache, CudaRope } from "../../models/cuda/pass.ts";
import { type CudaWeights, loadCudaWeights } from "../../models/cuda/weights.ts";
import { AdapterShares } from "../../models/shard/rank-lora.ts";
import type { RankShard } from "../../models/shard/rank-shard.ts";
import { loraTargets } from "../../models/weights/lora-targets.ts";
import type { GroupMember } from "../ranks/rank-group.ts";
import { type CudaSetupOptions, chooseBlocks, describePlan, planCuda } from "./capacity-plan.ts";
import { HostKvMemory } from "./host-kv-memory.ts";

export interface CudaDecoder {
  readonly model: CudaDecoderModel;
  readonly memory: CudaActivations;
  /** Present if adapters may be loaded. */
  readonly loraTargets: LoraTargets | undefined;
  /** Present if other GPUs hold parts of the same adapters. */
  readonly adapterShares: AdapterShares | undefined;
  readonly hostKv: HostKvMemory;
  /** Keys that a query sees at most in every layer, those of other GPUs included; undefined: all. */
  readonly window: number | undefined;
  /** Bytes on the device: weights, activations, cache. */
  readonly numBytes: number;
  close(): void;
}

/** @throws Error that says what is missing: a tensor, or memory */
export async function setUpCudaDecoder(
  device: CudaDevice,
  parsed: ParsedDecoder,
  files: TensorSource,
  options: CudaSetupOptions,
): Promise<CudaDecoder> {
  const { config } = parsed;
  const { type, blockSize, cacheType = type, ranks } = options;
  const planned = planCuda(device, parsed, files, options);
  const affordable = chooseBlocks(device, planned, options);
  const numBlocks = ranks?.group.least(affordable) ?? affordable;
  const plan = { ...planned, numHostBlocks: ranks?.group.least(planned.numHostBlocks) ?? planned.numHostBlocks };
  describePlan(device, plan, numBlocks, options);
  const buffers: CudaBuffer[] = [];
  let weights: CudaWeights | undefined;
  let hostKv: HostKvMemory | undefined;
  try {
    weights = await loadCudaWeights(device, files, plan.weights);
    buffers.push(device.allocate("activations", plan.workspaces.numBytes));
    buffers.push(device.allocate("the cache of keys and values", numBlocks * plan.blockBytes));
    const [work, cache] = buffers;
    if (work === undefined || cache === undefined) throw new Error("expected two buffers");
    device.stream.fill(work.address, 0, work.numBytes);
    const at = placeRegions(plan.workspaces, work.address);
    hostKv = new HostKvMemory(device, {
      cache: cache.address,
      numBlocks,
      numHostBlocks: plan.numHostBlocks,
      numPieces: 2 * config.numLayers,
      pieceBytes: plan.blockBytes / (2 * config.numLayers),
    });
    // If all layers have windows, sequences may outgrow the cache.
    const window = widestWindow(ranks?.shard.whole ?? config);
    const cached = window === undefined ? numBlocks * blockSize : options.maxPositions;
    const servedPositions = Math.min(options.maxPositions, cached);
    const ropes = config.ropes.map((rope) => ropeFactors(rope, servedPositions));
    const tables = uploadRopes(device, config, ropes);
    buffers.push(tables.buffer);
    const caches = splitCache(config, cache, blockSize * numBlocks, CUDA_TYPE_BYTES[cacheType]);
    return {
      model: {
        config,
        type,
        isDeterministic: options.isDeterministic,
        weights: ranks === undefined ? weights : withOwnOutput(weights, ranks.shard),
        ropes: tables.ropes,
        caches,
        cacheType,
        blockSize,
        numBlocks,
        attentionCountersBytes: plan.scratch.countersBytes,
        int4: plan.int4 && placeRegions(plan.int4, at.int4),
        experts: plan.experts && placeRegions(plan.experts, at.experts),
        lora: options.adapters && { low: at.lora },
        ranks: ranks?.group,
        share: ranks && { ...ranks.shard, parts: at.vocabularyParts },
      },
      memory: placeRegions(plan.activations, at.activations),
      loraTargets: options.adapters && loraTargets(ranks?.shard.whole ?? config, parsed.weights),
      adapterShares: ranks && new AdapterShares(ranks.shard.whole, ranks.group.place),
      hostKv,
      window,
      numBytes: buffers.reduce((sum, buffer) => sum + buffer.numBytes, weights.numBytes),
      close: closer(buffers, hostKv, weights, ranks?.group),
    };
  } catch (error) {
    closer(buffers, hostKv, weights, ranks?.group)();
    throw error;
  }
}

/** An embedding that is the output too lies whole on each GPU; each makes logits with its own rows. */
function withOwnOutput(weights: CudaWeights, { vocabulary }: RankShard): CudaWeights {
  const { weight } = weights.output;
  const [numRows, hiddenSize = 0] = weight.shape;
  if (numRows === vocabulary.count) return weights;
  const address = weight.address + BigInt(cudaTensorBytes(weight.type, [vocabulary.first, hiddenSize]));
  const scales = weight.scales && weight.scales + BigInt(4 * vocabulary.first);
  const own = { ...weight, address, scales, shape: [vocabulary.count, hiddenSize] };
  return { ...weights, output: { ...weights.output, weight: own } };
}

function closer(
  buffers: readonly CudaBuffer[],
  hostKv: HostKvMemory | undefined,
  weights: CudaWeights | undefined,
  group: GroupMember | undefined,
): () => void {
  return () => {
    group?.close();
    hostKv?.close();
    for (const buffer of buffers) buffer.close();
    weights?.close();
  };
}

/** Layer by layer, keys before values. */
function splitCache(
  { numLayers, numKvHeads, headDim }: DecoderConfig,
  cache: CudaBuffer,
  numSlots: number,
  elementBytes: number,
): readonly CudaLayerCache[] {
  const bytes = BigInt(numSlots * numKvHeads * headDim * elementBytes);
  return Array.from({ length: numLayers }, (_, i) => {
    const keys = cache.address + BigInt(2 * i) * bytes;
    return { keys, values: keys + bytes };
  });
}

function uploadRopes(
  device: CudaDevice,
  config: Pick<DecoderConfig, "ropes">,
  factors: readonly RopeFactors[],
): { readonly ropes: readonly CudaRope[]; readonly buffer: CudaBuffer } {
  const { ropes } = config;
  const tables = ropes.map(({ theta, numDims }, r) =>
    Float32Array.from({ length: numDims / 2 }, (_, i) => {
      const divisor = factors[r]?.divisors?.[i] ?? 1;
      return theta ** ((-2 * i) / numDims) / divisor;
    }),
  );
  const { offsets, numBytes } = layOut(tables.map(({ byteLength }) => byteLength));
  const buffer = device.allocate("rotary tables", Math.max(4, numBytes));
  for (const [i, table] of tables.entries()) {
    device.stream.copyToDevice(buffer.address + BigInt(offsets[i] ?? 0), table, table.byteLength);
  }
  device.stream.synchronize();
  return {
    ropes: ropes.map(({ numDims, sections }, i) => ({
      invFreq: buffer.address + BigInt(offsets[i] ?? 0),
      numDims,
      magnitude: factors[i]?.magnitude ?? 1,
      sections: hasThreeAxes(config) ? sections : undefined,
    })),
    buffer,
  };
}
