/** Multi-head latent attention of a layer as a list of ops: from the down projections to the rows of the output projection. */
import {
  type LatentRope,
  recordLatentKeys,
  recordLatentQueries,
  recordLatentValues,
} from "../../../kernels/latent-attention/latent-attention.ggml.ts";
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import { recordRmsNorm } from "../../../kernels/rms-norm/rms-norm.ggml.ts";
import { recordStoreKv } from "../../../kernels/store-kv/store-kv.ggml.ts";
import { expectAt } from "../../core/expect-at.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderConfig, LatentAttention } from "../config/decoder-config.ts";
import type { LatentWeights } from "../weights/weight-plan.ts";
import { cacheOf, type TokenPlaces } from "./attention.ts";
import type { DecoderModel } from "./decoder-model.ts";

/** Stores the keys of `qkv`, rows of [queries | latent | key to rotate], and gives queries [numTokens, heads, headDim]. */
export function recordLatentStored(
  graph: CpuGraph,
  model: DecoderModel,
  index: number,
  { qkv, slots, places }: { readonly qkv: CpuTensor; readonly slots: CpuTensor; readonly places: TokenPlaces },
): CpuTensor {
  const { config, caches } = model;
  const { latent, weights } = latentOf(model, index);
  const shape = { numHeads: config.numHeads, ...latent };
  const rope = ropeOf(model, index, places);
  const width = latent.queryRank ?? config.numHeads * (latent.nopeDims + latent.ropeDims);
  const norm = { weight: weights.keyNorm, epsilon: latent.epsilon };
  const keys = recordLatentKeys(graph, shape, { x: qkv, first: width }, norm, rope);
  recordStoreKv(graph, { cache: cacheOf(caches, index).keys, source: keys, slots, column: 0 });
  const { queryNorm, queryUp } = weights;
  if (queryNorm === undefined || queryUp === undefined)
    return recordLatentQueries(graph, shape, { x: qkv, first: 0 }, weights.keyUp, rope);
  const [numTokens = 0, rowWidth = 0] = qkv.shape;
  const { base } = graph.ggml;
  const handle = base.view2d(graph.claim(), qkv.handle, width, numTokens, rowWidth * 4, 0);
  const down: CpuTensor = { handle, type: "f32", shape: [numTokens, width] };
  const normed = recordRmsNorm(graph, { x: down, weight: queryNorm, epsilon: latent.epsilon });
  const up = recordLinear(graph, { x: normed, weight: queryUp });
  return recordLatentQueries(graph, shape, { x: up, first: 0 }, weights.keyUp, rope);
}

/** [numTokens, heads * valueDims] of what was attended to, [numTokens, heads * keyRank] */
export function recordLatentOutput(
  graph: CpuGraph,
  model: DecoderModel,
  index: number,
  attended: CpuTensor,
): CpuTensor {
  return recordLatentValues(graph, attended, latentOf(model, index).weights.valueUp);
}

function latentOf(
  { config, weights }: DecoderModel,
  index: number,
): { readonly latent: LatentAttention; readonly weights: LatentWeights<CpuTensor> } {
  const { latent } = config;
  const own = expectAt(weights.layers, index).latent;
  if (latent === undefined || own === undefined) throw new Error(`layer ${index} has no latent attention`);
  return { latent, weights: own };
}

function ropeOf(
  { config, weights, ropeMagnitudes }: DecoderModel,
  index: number,
  { positions }: TokenPlaces,
): LatentRope {
  const number = expectAt(config.layers, index).rope ?? 0;
  const { theta, isInterleaved = false } = expectAt(config.ropes as DecoderConfig["ropes"], number);
  const magnitude = ropeMagnitudes[number] ?? 1;
  return { positions, isInterleaved, theta, frequencyFactors: weights.ropeDivisors[number], magnitude };
}
