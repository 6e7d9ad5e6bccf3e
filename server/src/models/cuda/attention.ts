/** The attention of a layer on a GPU: projection, norms of heads, RoPE, the cache, and the kernels that read it. */
import {
  type DecodeRope,
  launchDecodeAttention,
  launchPrefillAttention,
  supportsDecodeRope,
} from "../../../kernels/attention/attention.cuda.ts";
import { decodeWorkspaceBytes } from "../../../kernels/attention/decode-plan.ts";
import type { Fp8KvScales, KvCacheForm } from "../../../kernels/cuda/kv-cache-type.ts";
import type { DeferredEpilogue } from "../../../kernels/cuda/quantized-output.ts";
import { launchRopeStore } from "../../../kernels/rope-store/rope-store.cuda.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import { enqueueAdapted } from "./lora.ts";
import {
  type CudaCacheType,
  type CudaDecoderModel,
  type CudaLayerCache,
  type CudaPass,
  type CudaRows,
  numbersAt,
} from "./pass.ts";

/** Workspace of attention: counters, which are zero between steps, and partial sums behind them. */
export interface AttentionScratch {
  readonly countersBytes: number;
  readonly numBytes: number;
}

const ALIGNMENT = 256;
/** Keys and values of common models lie well within the range of FP8 (E4M3). */
const FP8_SCALES: Fp8KvScales = { key: 1, value: 1 };

export function attentionScratch(
  { numHeads, numKvHeads, headDim }: DecoderConfig,
  maxSequences: number,
  cacheType: CudaCacheType,
  { arch, numSms }: { readonly arch: string; readonly numSms: number },
): AttentionScratch {
  const shape = { numSequences: maxSequences, numHeads, numKvHeads, headDim, isFp8: cacheType === "e4m3" };
  const { counters, partials } = decodeWorkspaceBytes(arch, numSms, shape);
  const countersBytes = Math.ceil(counters / ALIGNMENT) * ALIGNMENT;
  return { countersBytes, numBytes: countersBytes + partials };
}

/** Gives [numTokens, numHeads * headDim]; the keys and values of the step are in the cache then. */
export function enqueueAttention(pass: CudaPass, index: number, normed: CudaRows): DevicePointer {
  const { qkv } = expectAt(pass.model.weights.layers, index);
  const place = { layer: index, linear: "qkv" } as const;
  const left = enqueueAdapted(pass, place, normed, qkv, pass.batch.numTokens, pass.memory.qkv, "sums");
  return enqueueProjected(pass, index, left);
}

/** The same from queries, keys and values in `memory.qkv` on. */
export function enqueueProjected(pass: CudaPass, index: number, left?: DeferredEpilogue): DevicePointer {
  const { stream, model, memory, batch } = pass;
  const { numHeads, numKvHeads, headDim, norm, layers } = model.config;
  if (left === undefined && rotatesInDecode(pass, index)) return enqueueRotatingReads(pass, index);
  const layer = expectAt(model.weights.layers, index);
  const { keys, values } = expectAt(model.caches, index);
  const { rope: number, window } = expectAt(layers, index);
  const rope = number === undefined ? undefined : expectAt(model.ropes, number);
  launchRopeStore(stream, {
    type: model.type,
    qkv: memory.qkv,
    sumScales: left?.scales,
    splitKPartials: left?.parts,
    positions: numbersAt(batch, rope?.sections === undefined ? "positions" : "axes"),
    slots: numbersAt(batch, "slots"),
    numTokens: batch.numTokens,
    numHeads,
    numKvHeads,
    headDim,
    rope,
    headNorms: layer.headNorms && { weight: layer.headNorms.address, epsilon: norm.epsilon },
    q: memory.queries,
    qRowWidth: numHeads * headDim,
    keys,
    values,
    ...cacheForm(model),
  });
  enqueueReads(pass, { keys, values }, window);
  return memory.attentionOutput;
}

/** From more rows on the angles, which each block finds for itself, cost more than a kernel for them. */
const MAX_ROTATING_ROWS = 16;

/** Decode steps of few rows need no RoPE kernel: the attention kernel rotates what it reads. */
function rotatesInDecode({ model, batch }: CudaPass, index: number): boolean {
  if (model.isDeterministic === true) return false;
  const { headDim, layers } = model.config;
  const { rope } = expectAt(layers, index);
  const { headNorms } = expectAt(model.weights.layers, index);
  if (rope === undefined || headNorms !== undefined) return false;
  const { numDims, sections } = expectAt(model.ropes, rope);
  if (sections !== undefined) return false;
  const isDecode = batch.numDecoding === batch.numTokens && batch.numTokens <= MAX_ROTATING_ROWS;
  return isDecode && supportsDecodeRope(model.type, headDim, numDims);
}

function enqueueRotatingReads(pass: CudaPass, index: number): DevicePointer {
  const { model, memory } = pass;
  const { rope = 0, window } = expectAt(model.config.layers, index);
  enqueueReads(pass, expectAt(model.caches, index), window, expectAt(model.ropes, rope));
  return memory.attentionOutput;
}

/** The sequences in front that add one token each are read for by one kernel, all others by another. */
function enqueueReads(
  pass: CudaPass,
  { keys, values }: CudaLayerCache,
  window: number | undefined,
  turning?: DecodeRope,
): void {
  const { stream, model, memory, batch } = pass;
  const { numHeads, numKvHeads, headDim, attentionScale, attentionSoftCap } = model.config;
  const shared = {
    type: model.type,
    q: turning === undefined ? memory.queries : memory.qkv,
    qRowWidth: (turning === undefined ? numHeads : numHeads + 2 * numKvHeads) * headDim,
    keys,
    values,
    out: memory.attentionOutput,
    maxBlocks: batch.maxBlocks,
    blockSize: model.blockSize,
    numHeads,
    numKvHeads,
    headDim,
    scale: attentionScale,
    softCap: attentionSoftCap,
    window,
    ...cacheForm(model),
  };
  const contextLengths = numbersAt(batch, "contextLengths");
  const blockTables = numbersAt(batch, "blockTable");
  const { numSequences, maxBlocks } = batch;
  const { isDeterministic } = model;
  const numDecoding = isDeterministic === true ? 0 : batch.numDecoding;
  if (numDecoding > 0) {
    const counters = memory.attentionScratch;
    const partials = counters + BigInt(model.attentionCountersBytes);
    launchDecodeAttention(stream, {
      ...shared,
      contextLengths,
      blockTables,
      numSequences: numDecoding,
      counters,
      partials,
      rope: turning,
    });
  }
  if (numDecoding === numSequences) return;
  launchPrefillAttention(stream, {
    ...shared,
    contextLengths: contextLengths + BigInt(4 * numDecoding),
    blockTables: blockTables + BigInt(4 * numDecoding * maxBlocks),
    queryStarts: numbersAt(batch, "queryStart") + BigInt(4 * numDecoding),
    numSequences: numSequences - numDecoding,
    maxQueryLength: batch.maxQueryLength,
    isDeterministic,
  });
}

function cacheForm({ cacheType }: CudaDecoderModel): KvCacheForm {
  return { fp8: cacheType === "e4m3" ? FP8_SCALES : undefined, isHalf: cacheType === "f16" };
}

function expectAt<T>(list: readonly T[], index: number): T {
  const value = list[index];
  if (value === undefined) throw new Error(`expected an element at ${index} of ${list.length}`);
  return value;
}
