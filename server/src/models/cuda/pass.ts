/** What all parts of a pass over a decoder on a GPU share: the model, the memory, the batch, and products. */
import type { ElemType } from "../../../kernels/cuda/launch-args.ts";
import type { LeftSums, QuantizedOutput } from "../../../kernels/cuda/quantized-output.ts";
import {
  isThinShape,
  launchThinLinear,
  THIN_MAX_ROWS,
  type ThinWeightType,
} from "../../../kernels/thin-linear/thin-linear.cuda.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { Products } from "../../device/cuda/dense-gemm.ts";
import type { DevicePointer, KernelStream } from "../../device/cuda/kernel-stream.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import type { Linear, ModelWeights } from "../weights/weight-plan.ts";
import type { ExpertsMemory } from "./experts-memory.ts";
import { enqueueInt4Product, type Int4Memory } from "./int4.ts";
import type { CudaLoraBatch } from "./lora.ts";
import type { CudaActivations } from "./memory.ts";
import type { CudaRanks, CudaVocabularyShare } from "./ranks.ts";
import type { StepLayout } from "./step-layout.ts";
import { enqueueGroupParts, enqueueGroupProduct, groupForm } from "./wgmma-weights.ts";

/** Keys and values of one layer. */
export interface CudaLayerCache {
  readonly keys: DevicePointer; // [numSlots, kvHeads * headDim]
  readonly values: DevicePointer; // likewise
}

/** How a rope turns, as a table on the device. */
export interface CudaRope {
  readonly invFreq: DevicePointer; // f32 [numDims / 2]
  readonly numDims: number;
  readonly magnitude: number;
  /** Pairs that turn by the time, the row and the column of a token, where all ropes of the model have such. */
  readonly sections?: readonly [number, number, number] | undefined;
}

/** What the cache holds: what is computed in, halves, or 8-bit floats, which need no scales in most models. */
export type CudaCacheType = ElemType | "f16" | "e4m3";

export interface CudaDecoderModel {
  readonly config: DecoderConfig;
  readonly type: ElemType;
  /** What comes out for a row does not depend on the others: nothing is done otherwise for few rows. */
  readonly isDeterministic?: boolean | undefined;
  readonly weights: ModelWeights<CudaTensor>;
  readonly ropes: readonly CudaRope[];
  readonly caches: readonly CudaLayerCache[];
  readonly cacheType: CudaCacheType;
  readonly blockSize: number;
  readonly numBlocks: number;
  /** Of the counters in front of the scratch memory of attention. */
  readonly attentionCountersBytes: number;
  /** Where there are matrices of 4 bits. */
  readonly int4?: Int4Memory | undefined;
  /** Where there are experts. */
  readonly experts?: ExpertsMemory | undefined;
  /** Where adapters may be loaded. */
  readonly lora?: { readonly low: DevicePointer } | undefined;
  /** Where other GPUs run the same model. */
  readonly ranks?: CudaRanks | undefined;
  readonly share?: CudaVocabularyShare | undefined;
}

/** The sizes of a pass and where its numbers are. */
export interface CudaBatch {
  readonly numTokens: number;
  readonly numSequences: number;
  /** Entries of a row of the block table. */
  readonly maxBlocks: number;
  /** Sequences in front that add one token each. */
  readonly numDecoding: number;
  /** Of one of the other sequences. */
  readonly maxQueryLength: number;
  readonly numLogitRows: number;
  /** Of the rows of logits, those whose tokens are chosen. */
  readonly numChoices: number;
  /** Logits are wanted of every row, in order. */
  readonly keepsAllRows: boolean;
  /** Where rows carry adapters. */
  readonly lora?: CudaLoraBatch | undefined;
  /** The same of the rows of logits, where only these pass the rest of the last layer; absent: none of them does. */
  readonly keptLora?: CudaLoraBatch | undefined;
  readonly numbers: DevicePointer;
  readonly layout: StepLayout;
}

export interface CudaPass {
  readonly stream: KernelStream;
  readonly products: Products;
  readonly model: CudaDecoderModel;
  readonly memory: CudaActivations;
  readonly batch: CudaBatch;
}

/** Address of a part of the step's numbers. */
export function numbersAt(batch: CudaBatch, part: keyof StepLayout): DevicePointer {
  return batch.numbers + BigInt(4 * batch.layout[part]);
}

/** The left side of a product. */
export interface CudaRows {
  /** Activations, or codes where there are scales. */
  readonly address: DevicePointer;
  readonly scales?: DevicePointer | undefined; // f32, one a row
}

/** Whether the product of so many rows with a matrix takes them as codes. */
export function takesCodes(pass: CudaPass, linear: Linear<CudaTensor>, rows: number): boolean {
  return linear.weight.type === "e4m3" && thinType(pass, linear, rows) === undefined;
}

/** Few rows are multiplied with the weights as these are read; undefined where the kernel for that does not serve. */
function thinType(pass: CudaPass, linear: Linear<CudaTensor>, rows: number): ThinWeightType | undefined {
  const { type, isDeterministic } = pass.model;
  if (isDeterministic === true) return undefined;
  const { type: kept, shape } = linear.weight;
  const [outputs = 0, inputs = 0] = shape;
  if (type !== "bf16" || (kept !== "bf16" && kept !== "e4m3") || rows > THIN_MAX_ROWS[kept]) return undefined;
  return isThinShape(kept, outputs, inputs) && groupForm(pass, linear, rows) === undefined ? kept : undefined;
}

/** What a kernel needs in order to store its rows as codes with a scale each. */
export function codesWith(scales: DevicePointer): QuantizedOutput {
  return { codes: "e4m3", per: "row", scales };
}

/** What a reader of sums does itself: nothing, multiply by the scales of rows and columns, or also add parts up. */
export type Leaves = "nothing" | "scales" | "parts";

/**
 * Leaves to whoever reads a product what is faster there: of codes the scales, for few rows, without which the library is
 * faster, and of some tens of rows sums in parts. Undefined when the product has been made complete.
 */
export function enqueueLeaving(
  pass: CudaPass,
  leaves: Leaves,
  x: CudaRows,
  linear: Linear<CudaTensor>,
  rows: number,
  y: DevicePointer,
): LeftSums | undefined {
  const left = leaves === "parts" ? enqueueGroupParts(pass, x, linear, rows) : undefined;
  if (left !== undefined) return left;
  const columns = linear.weight.scales;
  const isFew = rows <= MAX_UNSCALED_ROWS && pass.model.isDeterministic !== true;
  const isLeft = leaves !== "nothing" && x.scales !== undefined && columns !== undefined && linear.bias === undefined;
  if (!isLeft || !isFew || groupForm(pass, linear, rows) !== undefined) {
    enqueueProduct(pass, x, linear, rows, y);
    return undefined;
  }
  const [outputs = 0, inputs = 0] = linear.weight.shape;
  const shape = { rows, outputs, inputs, inputType: "e4m3", outputType: pass.model.type, hasBias: false } as const;
  pass.products.run({ ...shape, scales: "none", x: x.address, weight: linear.weight.address, y });
  return { scales: { rows: x.scales, columns } };
}

/** From more rows on the library is as fast with scales. */
const MAX_UNSCALED_ROWS = 256;

export function enqueueProduct(
  pass: CudaPass,
  x: CudaRows,
  linear: Linear<CudaTensor>,
  rows: number,
  y: DevicePointer,
  outputType: ElemType = pass.model.type,
): void {
  const { stream, products, model } = pass;
  const { weight, bias } = linear;
  const [outputs = 0, inputs = 0] = weight.shape;
  if (weight.type === "int4") {
    if (model.int4 === undefined) throw new Error("a product of 4 bits without memory for it");
    const product = {
      x: x.address,
      weight,
      bias: bias?.address,
      rows,
      y,
      alwaysDecodes: model.isDeterministic === true,
    };
    enqueueInt4Product(stream, products, model.int4, product);
    return;
  }
  const hasCodes = x.scales !== undefined;
  // Of rows that were made codes, few may be wanted at a time.
  const weightType = hasCodes ? undefined : thinType(pass, linear, rows);
  if (hasCodes !== (weight.type === "e4m3" && weightType === undefined))
    throw new Error("a product of codes and activations");
  if (weightType !== undefined) {
    launchThinLinear(stream, {
      x: x.address,
      weight: weight.address,
      weightType,
      scales: weight.scales,
      bias: bias?.address,
      out: y,
      outputType,
      numRows: rows,
      outputs,
      inputs,
    });
    return;
  }
  const form = outputType === model.type ? groupForm(pass, linear, rows) : undefined;
  if (form !== undefined) {
    enqueueGroupProduct(pass, x, linear, rows, y, form);
    return;
  }
  products.run({
    rows,
    outputs,
    inputs,
    inputType: hasCodes ? "e4m3" : model.type,
    outputType,
    hasBias: bias !== undefined,
    scales: hasCodes ? "rows" : "none",
    x: x.address,
    weight: weight.address,
    y,
    bias: bias?.address,
    xScale: x.scales,
    weightScale: weight.scales,
  });
}
