/**
 * The fused layer kernel on a GPU against the same operations step by step, and its share of memory bandwidth. Source:
 * fused-layer.cu.
 */
import { packInt4 } from "../int4-linear/pack-int4.ts";
import { dequantizeInt4, quantizeInt4 } from "../int4-linear/quantize-int4.ts";
import { type CudaCheck, type CudaCheckContext, relativeError } from "../testing/cuda-check.ts";
import { downloadFloats, seededFloats, unreadInput, uploadRandom } from "../testing/cuda-check-data.ts";
import {
  type FusedLayerCudaArgs,
  type FusedLayerMatrix,
  type FusedLayerShape,
  type FusedLayerWeightType,
  gridBarrierBytes,
  launchFusedLayer,
  planFusedLayer,
} from "./fused-layer.cuda.ts";
import { fusedLayerRef } from "./fused-layer.ref.ts";

interface Variant extends FusedLayerShape {
  readonly hasBias: boolean;
  /** "gemms": one launch for each GEMM. "block": one block does all. "grid": as it is meant, where blocks run at once. */
  readonly form: "gemms" | "block" | "grid";
}

const SMALL = { attentionWidth: 256, width: 512, inner: 768, outWidth: 320 } as const;
const WIDE = { attentionWidth: 1024, width: 1280, inner: 2816, outWidth: 1536 } as const;

const VARIANTS: readonly Variant[] = [
  { ...SMALL, weightType: "bf16", numRows: 1, hasBias: false, form: "block" },
  { ...SMALL, weightType: "bf16", numRows: 3, hasBias: true, form: "gemms" },
  { ...SMALL, weightType: "bf16", numRows: 8, hasBias: false, form: "gemms" },
  { ...SMALL, weightType: "e4m3", numRows: 2, hasBias: true, form: "block" },
  { ...SMALL, weightType: "e4m3", numRows: 3, hasBias: false, form: "gemms" },
  { ...SMALL, weightType: "int4", numRows: 1, hasBias: true, form: "gemms" },
  { ...SMALL, weightType: "int4", numRows: 2, hasBias: false, form: "block" },
  { ...WIDE, weightType: "bf16", numRows: 1, hasBias: false, form: "grid" },
  { ...WIDE, weightType: "bf16", numRows: 5, hasBias: true, form: "grid" },
  { ...WIDE, weightType: "e4m3", numRows: 1, hasBias: false, form: "grid" },
  { ...WIDE, weightType: "e4m3", numRows: 4, hasBias: false, form: "grid" },
  { ...WIDE, weightType: "int4", numRows: 1, hasBias: false, form: "grid" },
  { ...WIDE, weightType: "int4", numRows: 2, hasBias: false, form: "grid" },
];

const EPSILON = 1e-5;

export const cudaChecks: readonly CudaCheck[] = VARIANTS.map((variant) => {
  const { weightType, numRows, form } = variant;
  return {
    name: `fused-layer ${weightType} ${numRows} rows ${form}`,
    maxError: 6e-3,
    shows: [form],
    ...(form === "grid" ? { needsWholeGrid: true } : {}),
    run: (context) => runLayer(context, variant),
  };
});

/** A matrix that keeps the size of what it multiplies. */
function uploadMatrix(
  context: CudaCheckContext,
  type: FusedLayerWeightType,
  outputs: number,
  inputs: number,
  seed: number,
): { readonly matrix: FusedLayerMatrix; readonly values: Float32Array } {
  if (context.isRecording === true) {
    const { pointer, values } = unreadInput(context, outputs * inputs * 2, outputs * inputs);
    return { matrix: { weight: pointer, ...(type === "bf16" ? {} : { scales: pointer }) }, values };
  }
  const spread = Math.sqrt(3 / inputs);
  if (type === "int4") {
    const quantized = quantizeInt4(seededFloats(outputs * inputs, seed, spread), inputs, {
      groupSize: 128,
      hasZeros: false,
    });
    const { codes, scales } = packInt4(quantized);
    return {
      matrix: { weight: context.upload(codes), scales: context.upload(scales) },
      values: dequantizeInt4(quantized),
    };
  }
  if (type === "bf16") {
    const { pointer, values } = uploadRandom(context, "bf16", outputs * inputs, seed, spread);
    return { matrix: { weight: pointer }, values };
  }
  const codes = uploadRandom(context, "e4m3", outputs * inputs, seed, 400);
  const scales = uploadRandom(context, "f32", outputs, seed + 100, spread / 400);
  const values = codes.values.map((code, i) => code * (scales.values[Math.floor(i / inputs)] ?? Number.NaN));
  return { matrix: { weight: codes.pointer, scales: scales.pointer }, values };
}

async function runLayer(context: CudaCheckContext, variant: Variant): Promise<number> {
  const { weightType, numRows, attentionWidth, width, inner, outWidth, hasBias, form } = variant;
  const attention = uploadRandom(context, "bf16", numRows * attentionWidth, 1);
  const residual = uploadRandom(context, "bf16", numRows * width, 2);
  if (planFusedLayer(context.stream.arch, variant) === undefined) {
    return relativeError(await downloadFloats(context, "bf16", residual.pointer, numRows * width), residual.values);
  }
  const [norm, outNorm] = [uploadRandom(context, "f32", width, 3), uploadRandom(context, "f32", width, 4)];
  const bias = uploadRandom(context, "bf16", outWidth, 5);
  const oProj = uploadMatrix(context, weightType, width, attentionWidth, 6);
  const gateUp = uploadMatrix(context, weightType, 2 * inner, width, 7);
  const down = uploadMatrix(context, weightType, width, inner, 8);
  const qkvProj = uploadMatrix(context, weightType, outWidth, width, 9);
  const out = context.allocate(numRows * outWidth * 2);
  const args: FusedLayerCudaArgs = {
    ...{ weightType, numRows, attentionWidth, width, inner, outWidth },
    activation: "silu",
    epsilon: EPSILON,
    attention: attention.pointer,
    residual: residual.pointer,
    activated: context.allocate(numRows * inner * 2),
    oProj: oProj.matrix,
    norm: norm.pointer,
    gateUp: gateUp.matrix,
    down: down.matrix,
    qkvProj: { matrix: qkvProj.matrix, norm: outNorm.pointer, bias: hasBias ? bias.pointer : undefined, out },
    gridBarrier: context.zeros(gridBarrierBytes(variant)),
  };
  if (form === "gemms") {
    for (let i = 0; i < 4; i++) launchFusedLayer(context.stream, { ...args, gemms: [i, i + 1], numBlocks: 7 });
  } else {
    launchFusedLayer(context.stream, form === "block" ? { ...args, numBlocks: 1 } : args);
  }
  const newResidual = await downloadFloats(context, "bf16", residual.pointer, numRows * width);
  const expected = fusedLayerRef({
    ...{ attention: attention.values, residual: residual.values, norm: norm.values, outNorm: outNorm.values },
    ...{ oProj: oProj.values, gateUp: gateUp.values, down: down.values, qkvProj: qkvProj.values },
    ...{ attentionWidth, width, inner, epsilon: EPSILON, ...(hasBias ? { bias: bias.values } : {}) },
  });
  const residualError = relativeError(newResidual, expected.residual);
  return Math.max(
    residualError,
    relativeError(await downloadFloats(context, "bf16", out, numRows * outWidth), expected.out),
  );
}

/** A layer of an 8B model, whose weights are more than the L2 cache holds. */
