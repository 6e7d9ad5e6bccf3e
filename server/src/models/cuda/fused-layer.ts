/**
 * The fused layer kernel of a decode step with few rows: all between two attentions in one launch. Decides for which models and
 * batches it serves. Knows no attention.
 */
import {
  type FusedLayerMatrix,
  type FusedLayerWeightType,
  launchFusedLayer,
  planFusedLayer,
} from "../../../kernels/fused-layer/fused-layer.cuda.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { ExpertWeights, LayerWeights, Mlp } from "../weights/weight-plan.ts";
import type { CudaDecoderModel, CudaPass } from "./pass.ts";
import { cudaActivation } from "./supported.ts";

type Layer = LayerWeights<CudaTensor>;

/** All matrices of the layers are of one of the kernel's types and shapes, and nothing stands between its GEMMs. */
export function fusedLayerType({ stream, model, batch }: CudaPass): FusedLayerWeightType | undefined {
  const { numTokens, numDecoding, keepsAllRows, lora } = batch;
  if (numDecoding < numTokens || !keepsAllRows || lora !== undefined || model.isDeterministic === true)
    return undefined;
  const weightType = typeOfLayers(model);
  if (weightType === undefined) return undefined;
  return planFusedLayer(stream.arch, { weightType, numRows: numTokens, ...widths(model) }) && weightType;
}

/** From the rows behind the attention of layer `index` to what the next one reads in `memory.qkv`, if there is one. */
export function enqueueFusedLayer(
  { stream, model, memory, batch }: CudaPass,
  weightType: FusedLayerWeightType,
  index: number,
): void {
  const { layers } = model.weights;
  const [layer, next] = [layers[index], layers[index + 1]];
  if (layer?.mlpNorm === undefined || (next !== undefined && next.attentionNorm === undefined) || "router" in layer.mlp)
    throw new Error(`layer ${index}: not one for few rows`);
  const { norm } = model.config;
  launchFusedLayer(stream, {
    ...{ weightType, numRows: batch.numTokens, ...widths(model) },
    activation: cudaActivation(model.config),
    epsilon: norm.epsilon,
    attention: memory.attentionOutput,
    residual: memory.residual,
    activated: memory.activated,
    oProj: matrixOf(layer.oProj.weight),
    norm: layer.mlpNorm.weight.address,
    gateUp: matrixOf(layer.mlp.in.weight),
    down: matrixOf(layer.mlp.out.weight),
    qkvProj: next && {
      matrix: matrixOf(next.qkv.weight),
      norm: next.attentionNorm?.weight.address ?? 0n,
      bias: next.qkv.bias?.address,
      out: memory.qkv,
    },
    gridBarrier: memory.gridBarrier,
  });
}

function widths({ config }: CudaDecoderModel): {
  readonly attentionWidth: number;
  readonly width: number;
  readonly inner: number;
  readonly outWidth: number;
} {
  const { hiddenSize, numHeads, numKvHeads, headDim, mlp } = config;
  return {
    attentionWidth: numHeads * headDim,
    width: hiddenSize,
    inner: mlp.intermediateSize,
    outWidth: (numHeads + 2 * numKvHeads) * headDim,
  };
}

function matrixOf({ address, scales }: CudaTensor): FusedLayerMatrix {
  return { weight: address, scales };
}

const known = new WeakMap<CudaDecoderModel, { readonly type: FusedLayerWeightType | undefined }>();

function typeOfLayers(model: CudaDecoderModel): FusedLayerWeightType | undefined {
  let found = known.get(model);
  if (found === undefined) {
    found = { type: findType(model) };
    known.set(model, found);
  }
  return found.type;
}

function findType({ config, type, weights, ranks }: CudaDecoderModel): FusedLayerWeightType | undefined {
  const isWritten =
    type === "bf16" &&
    ranks === undefined &&
    config.residual !== "parallel" &&
    config.norm.kind === "rms" &&
    config.residualScale === 1 &&
    config.mlp.isGated;
  if (!isWritten || !weights.layers.every(isPlain)) return undefined;
  const types = new Set(weights.layers.flatMap((layer) => matrices(layer).map(matrixType)));
  const [only] = types;
  return types.size === 1 ? only : undefined;
}

/** Nothing but norms and GEMMs, and a bias where the kernel adds one. */
function isPlain({ attentionNorm, mlpNorm, attentionPostNorm, mlpPostNorm, oProj, mlp }: Layer): boolean {
  if (attentionNorm === undefined || mlpNorm === undefined) return false;
  const hasPlainNorms = attentionNorm.bias === undefined && mlpNorm.bias === undefined;
  if (!hasPlainNorms || attentionPostNorm !== undefined || mlpPostNorm !== undefined) return false;
  return isDense(mlp) && [oProj, mlp.in, mlp.out].every(({ bias }) => bias === undefined);
}

function isDense(mlp: Mlp<CudaTensor> | ExpertWeights<CudaTensor>): mlp is Mlp<CudaTensor> {
  return !("router" in mlp);
}

function matrices({ qkv, oProj, mlp }: Layer): readonly CudaTensor[] {
  return isDense(mlp) ? [qkv.weight, oProj.weight, mlp.in.weight, mlp.out.weight] : [];
}

const INT4_GROUP_SIZE = 128;

function matrixType({ type, groupSize, zeros, inputScales }: CudaTensor): FusedLayerWeightType | undefined {
  if (type === "bf16" || type === "e4m3") return type;
  const isWritten = groupSize === INT4_GROUP_SIZE && zeros === undefined && inputScales === undefined;
  return type === "int4" && isWritten ? "int4" : undefined;
}
