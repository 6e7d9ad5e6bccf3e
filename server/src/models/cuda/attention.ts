/** The attention of a layer on a GPU: norms of heads, RoPE, the cache, and the kernels that read it. */
import {
  type DecodeRope,
  launchDecodeAttention,
  launchPrefillAttention,
  supportsDecodeRope,
} from "../../../kernels/attention/attention.cuda.ts";
import { decodeWorkspaceBytes } from "../../../kernels/attention/decode-plan.ts";
import type { Fp8KvScales, KvCacheForm } from "../../../kernels/cuda/kv-cache-type.ts";
import { launchRopeStore } from "../../../kernels/rope-store/rope-store.cuda.ts";
import { expectAt } from "../../core/expect-at.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import { type CudaCacheType, type CudaDecoderModel, type CudaPass, type CudaRows, numbersAt } from "./pass.ts";

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

/**
 * Norms of heads, RoPE, and keys and values to the cache. Gives what `enqueueReads()` reads: the queries in
 * `memory.queries`, or `memory.qkv` as it is where the attention kernel does all that.
 */
export function enqueueRopeStore(pass: CudaPass, index: number, qkv: CudaRows): CudaRows {
  const { stream, model, memory, batch } = pass;
  const { deferred } = qkv;
  if (deferred === undefined && rotatesInDecode(pass, index)) return qkv;
  const { numHeads, numKvHeads, headDim, norm, layers } = model.config;
  const layer = expectAt(model.weights.layers, index);
  const { keys, values } = expectAt(model.caches, index);
  const { rope: number } = expectAt(layers, index);
  const rope = number === undefined ? undefined : expectAt(model.ropes, number);
  launchRopeStore(stream, {
    type: model.type,
    qkv: qkv.address,
    sumScales: deferred?.scales,
    splitKPartials: deferred?.parts,
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
  return { address: memory.queries };
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

/**
 * The attention output, [numTokens, numHeads * headDim], of what `enqueueRopeStore()` gives. The sequences in front that add
 * one token each are read for by one kernel, all others by another.
 */
export function enqueueReads(pass: CudaPass, index: number, { address: q }: CudaRows): CudaRows {
  const { stream, model, memory, batch } = pass;
  const { numHeads, numKvHeads, headDim, attentionScale, attentionSoftCap, layers } = model.config;
  const { keys, values } = expectAt(model.caches, index);
  const { rope = 0, window } = expectAt(layers, index);
  const rotating: DecodeRope | undefined = q === memory.qkv ? expectAt(model.ropes, rope) : undefined;
  const shared = {
    type: model.type,
    q,
    qRowWidth: (rotating === undefined ? numHeads : numHeads + 2 * numKvHeads) * headDim,
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
    sinks: expectAt(model.weights.layers, index).sinks?.address,
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
      rope: rotating,
    });
  }
  if (numDecoding === numSequences) return { address: memory.attentionOutput };
  launchPrefillAttention(stream, {
    ...shared,
    contextLengths: contextLengths + BigInt(4 * numDecoding),
    blockTables: blockTables + BigInt(4 * numDecoding * maxBlocks),
    queryStarts: numbersAt(batch, "queryStart") + BigInt(4 * numDecoding),
    numSequences: numSequences - numDecoding,
    maxQueryLength: batch.maxQueryLength,
    isDeterministic,
  });
  return { address: memory.attentionOutput };
}

function cacheForm({ cacheType }: CudaDecoderModel): KvCacheForm {
  return { fp8: cacheType === "e4m3" ? FP8_SCALES : undefined, isHalf: cacheType === "f16" };
}
