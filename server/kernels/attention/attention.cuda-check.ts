/**
 * Paged attention on a GPU: decode and prefill against the reference, with blocks in random order. Sources: the
 * attention kernels in this folder.
 */
import type { ElemType } from "../cuda/launch-args.ts";
import { launchRopeStore } from "../rope-store/rope-store.cuda.ts";
import { type CudaCheck, type CudaCheckContext, relativeError } from "../testing/cuda-check.ts";
import { downloadFloats, seededOrder, uploadRandom } from "../testing/cuda-check-data.ts";
import type { CudaElement } from "../testing/cuda-elements.ts";
import { type AttentionCudaArgs, launchDecodeAttention, launchPrefillAttention } from "./attention.cuda.ts";
import { attentionRef } from "./attention.ref.ts";
import type { AttentionSequence } from "./attention-span.ts";
import { decodeWorkspaceBytes } from "./decode-plan.ts";

interface Variant {
  readonly type: ElemType;
  readonly headDim: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly blockSize: number;
  readonly window?: number;
  readonly softCap?: number;
  readonly isFp8?: boolean;
  readonly isHalf?: boolean;
  /** Largest size of the logits of sinks. */
  readonly sinkSpread?: number;
}

/** Queries and keys before them. */
export type Lengths = readonly (readonly [queries: number, past: number])[];

const SCALES = { key: 0.5, value: 0.25 } as const;
const VARIANTS: readonly Variant[] = [
  { type: "f32", headDim: 64, numHeads: 4, numKvHeads: 2, blockSize: 16, window: 100, softCap: 20 },
  { type: "f32", headDim: 128, numHeads: 4, numKvHeads: 1, blockSize: 32 },
  { type: "bf16", headDim: 128, numHeads: 8, numKvHeads: 2, blockSize: 16 },
  { type: "bf16", headDim: 64, numHeads: 2, numKvHeads: 2, blockSize: 32 },
  { type: "bf16", headDim: 80, numHeads: 8, numKvHeads: 1, blockSize: 16, window: 90 },
  { type: "bf16", headDim: 96, numHeads: 12, numKvHeads: 1, blockSize: 64 },
  { type: "bf16", headDim: 128, numHeads: 20, numKvHeads: 1, blockSize: 64, window: 33 },
  { type: "bf16", headDim: 256, numHeads: 4, numKvHeads: 2, blockSize: 16, softCap: 10 },
  { type: "bf16", headDim: 128, numHeads: 8, numKvHeads: 2, blockSize: 16, isFp8: true },
  { type: "bf16", headDim: 80, numHeads: 4, numKvHeads: 1, blockSize: 32, isFp8: true, window: 200 },
  { type: "bf16", headDim: 256, numHeads: 4, numKvHeads: 2, blockSize: 16, isFp8: true },
  { type: "f32", headDim: 64, numHeads: 4, numKvHeads: 2, blockSize: 16, isHalf: true },
  { type: "bf16", headDim: 128, numHeads: 4, numKvHeads: 2, blockSize: 16, isHalf: true, window: 60 },
  // Sinks, small and above all scores.
  { type: "f32", headDim: 64, numHeads: 4, numKvHeads: 2, blockSize: 16, sinkSpread: 3 },
  { type: "bf16", headDim: 64, numHeads: 16, numKvHeads: 2, blockSize: 16, window: 128, sinkSpread: 3 },
  { type: "bf16", headDim: 64, numHeads: 8, numKvHeads: 1, blockSize: 32, isFp8: true, sinkSpread: 9 },
  // Head sizes that are no multiple of an MMA step, or of a 16-byte copy.
  { type: "bf16", headDim: 24, numHeads: 4, numKvHeads: 2, blockSize: 16, window: 40 },
  { type: "bf16", headDim: 100, numHeads: 6, numKvHeads: 3, blockSize: 16 },
  { type: "bf16", headDim: 24, numHeads: 4, numKvHeads: 2, blockSize: 32, isFp8: true },
  { type: "bf16", headDim: 132, numHeads: 2, numKvHeads: 1, blockSize: 16, isFp8: true },
];
/** A past of -1 is a padded row: no context at all. */
const DECODES: Lengths = [0, -1, 14, 15, 16, 127, 500, 1023].map((past) => [1, past]);
const TURNED: Lengths = [0, -1, 15, 300].map((past) => [1, past]);
const PREFILLS: Lengths = [
  [1, 0],
  [5, 37],
  [64, 0],
  [65, 100],
  [130, 3],
  [150, 250],
];

const variantChecks: readonly CudaCheck[] = VARIANTS.flatMap((variant) => {
  const { type, headDim, numHeads, numKvHeads, window, softCap, isFp8, isHalf, sinkSpread } = variant;
  const name = `${type}${isFp8 ? " fp8" : ""}${isHalf ? " halves" : ""} ${numHeads}/${numKvHeads} heads of ${headDim}${window ? ` window ${window}` : ""}${softCap ? ` cap ${softCap}` : ""}${sinkSpread ? ` sinks ${sinkSpread}` : ""}`;
  const maxError = type === "f32" ? 1e-5 : 1e-2;
  const shows = [...(window === undefined ? [] : ["window"]), ...(sinkSpread === undefined ? [] : ["sinks"])];
  return [
    {
      name: `decode attention ${name}`,
      maxError,
      shows,
      run: (context: CudaCheckContext) => runVariant(context, variant, DECODES, true),
    },
    {
      name: `prefill attention ${name}`,
      maxError,
      shows,
      run: (context: CudaCheckContext) => runVariant(context, variant, PREFILLS, false),
    },
  ];
});

/** Decode attention that rotates and stores the last key itself, against the kernels that do it one after the other. */
const ROTATING: readonly Variant[] = [
  { type: "bf16", headDim: 128, numHeads: 8, numKvHeads: 2, blockSize: 32 },
  { type: "bf16", headDim: 64, numHeads: 12, numKvHeads: 1, blockSize: 16, window: 70 },
  { type: "bf16", headDim: 128, numHeads: 8, numKvHeads: 2, blockSize: 16, isFp8: true },
  { type: "bf16", headDim: 64, numHeads: 4, numKvHeads: 2, blockSize: 16, isHalf: true },
];

const rotatingChecks: readonly CudaCheck[] = ROTATING.map((variant) => ({
  name: `decode attention that rotates ${variant.headDim}${variant.isFp8 ? " fp8" : ""}${variant.isHalf ? " halves" : ""}`,
  maxError: 8e-3,
  run: (context) => runRotating(context, variant),
}));

function uploadFrequencies(context: CudaCheckContext, headDim: number): bigint {
  return context.upload(Float32Array.from({ length: headDim / 2 }, (_, i) => 10000 ** ((-2 * i) / headDim)));
}

function cacheElement({ type, isFp8, isHalf }: Variant): CudaElement {
  if (isFp8) return "e4m3";
  return isHalf ? "f16" : type;
}

/** Slot of the last of `contextLength` tokens; -1 when there is none. */
function lastSlot(blockTable: Int32Array, contextLength: number, blockSize: number): number {
  const last = contextLength - 1;
  return last < 0 ? -1 : (blockTable[Math.floor(last / blockSize)] ?? 0) * blockSize + (last % blockSize);
}

async function runRotating(context: CudaCheckContext, variant: Variant): Promise<number> {
  const { headDim, numHeads, numKvHeads, blockSize, window, isFp8 = false, isHalf = false } = variant;
  const { sequences, blockTables, maxBlocks, numBlocks } = layOut(TURNED, blockSize);
  const kvType = cacheElement(variant);
  const cacheCount = numBlocks * blockSize * numKvHeads * headDim;
  const qRowWidth = (numHeads + 2 * numKvHeads) * headDim;
  const count = sequences.length;
  const qkv = uploadRandom(context, "bf16", count * qRowWidth, 1, 2).pointer;
  const invFreq = uploadFrequencies(context, headDim);
  const positions = sequences.map(({ contextLength }) => Math.max(0, contextLength - 1));
  const slots = sequences.map(({ contextLength }, s) =>
    lastSlot(blockTables.subarray(s * maxBlocks), contextLength, blockSize),
  );
  const cache = (seed: number): bigint => uploadRandom(context, kvType, cacheCount, seed, isFp8 ? 4 : 2).pointer;
  const bytes = decodeWorkspaceBytes(context.stream.arch, context.stream.numSms, {
    ...variant,
    numSequences: count,
    isFp8,
  });
  const lengths = context.upload(Int32Array.from(sequences, ({ contextLength }) => contextLength));
  const tables = context.upload(blockTables);
  const shared = {
    ...({
      type: "bf16",
      contextLengths: lengths,
      blockTables: tables,
      numSequences: count,
      maxBlocks,
      blockSize,
    } as const),
    ...{ numHeads, numKvHeads, headDim, scale: 1 / Math.sqrt(headDim), window },
    ...{ fp8: isFp8 ? SCALES : undefined, isHalf },
    ...{ counters: context.zeros(bytes.counters), partials: context.allocate(bytes.partials) },
  };
  const [keys, values, rotatedKeys, rotatedValues] = [cache(2), cache(3), cache(2), cache(3)];
  const q = context.allocate(count * numHeads * headDim * 2);
  const [out, rotatedOut] = [0, 1].map(() => context.allocate(count * numHeads * headDim * 2));
  launchRopeStore(context.stream, {
    ...({
      type: "bf16",
      qkv,
      numTokens: count,
      numHeads,
      numKvHeads,
      headDim,
      q,
      qRowWidth: numHeads * headDim,
    } as const),
    ...{ isHalf, positions: context.upload(Int32Array.from(positions)), slots: context.upload(Int32Array.from(slots)) },
    ...{ rope: { invFreq, numDims: headDim, magnitude: 1.5 }, keys, values, fp8: shared.fp8 },
  });
  launchDecodeAttention(context.stream, { ...shared, q, qRowWidth: numHeads * headDim, keys, values, out: out ?? 0n });
  const rope = { invFreq, magnitude: 1.5 };
  const rotated = { q: qkv, qRowWidth, keys: rotatedKeys, values: rotatedValues, out: rotatedOut ?? 0n, rope };
  launchDecodeAttention(context.stream, { ...shared, ...rotated });
  const read = (at: bigint | undefined, type: CudaElement, size: number): Promise<Float32Array> =>
    downloadFloats(context, type, at ?? 0n, size);
  return Math.max(
    relativeError(await read(rotatedKeys, kvType, cacheCount), await read(keys, kvType, cacheCount)),
    relativeError(await read(rotatedValues, kvType, cacheCount), await read(values, kvType, cacheCount)),
    relativeError(
      await read(rotatedOut, "bf16", count * numHeads * headDim),
      await read(out, "bf16", count * numHeads * headDim),
    ),
  );
}

async function runVariant(
  context: CudaCheckContext,
  variant: Variant,
  lengths: Lengths,
  isDecode: boolean,
): Promise<number> {
  const { type, headDim, numHeads, numKvHeads, blockSize, softCap, window, isFp8, isHalf, sinkSpread } = variant;
  const { sequences, numTokens, blockTables, maxBlocks, numBlocks } = layOut(lengths, blockSize);
  const kvType = cacheElement(variant);
  const cacheCount = numBlocks * blockSize * numKvHeads * headDim;
  const qRowWidth = (numHeads + 2 * numKvHeads) * headDim;
  const q = uploadRandom(context, type, numTokens * qRowWidth, 1, 2);
  const keys = uploadRandom(context, kvType, cacheCount, 2, isFp8 ? 4 : 2);
  const values = uploadRandom(context, kvType, cacheCount, 3, isFp8 ? 4 : 1);
  const sinks = sinkSpread === undefined ? undefined : uploadRandom(context, "f32", numHeads, 5, sinkSpread);
  const scale = 1 / Math.sqrt(headDim);
  const contextLengths = sequences.map((sequence) => sequence.contextLength);
  const outCount = numTokens * numHeads * headDim;
  const args: AttentionCudaArgs = {
    type,
    q: q.pointer,
    qRowWidth,
    keys: keys.pointer,
    values: values.pointer,
    contextLengths: context.upload(Int32Array.from(contextLengths)),
    blockTables: context.upload(blockTables),
    out: context.allocate(outCount * 4),
    numSequences: sequences.length,
    maxBlocks,
    blockSize,
    numHeads,
    numKvHeads,
    headDim,
    scale,
    softCap,
    window,
    sinks: sinks?.pointer,
    fp8: isFp8 ? SCALES : undefined,
    isHalf,
  };
  if (isDecode) launchDecodeTwice(context, args);
  else launchPrefill(context, args, sequences);
  const result = await downloadFloats(context, type, args.out, outCount);
  const times = (factor: number) => (value: number) => value * factor;
  const expected = attentionRef({
    q: compact(q.values, qRowWidth, numHeads * headDim),
    keyCache: isFp8 ? keys.values.map(times(SCALES.key)) : keys.values,
    valueCache: isFp8 ? values.values.map(times(SCALES.value)) : values.values,
    sequences,
    blockSize,
    numHeads,
    numKvHeads,
    headDim,
    scale,
    ...(softCap === undefined ? {} : { softCap }),
    ...(window === undefined ? {} : { window }),
    ...(sinks === undefined ? {} : { sinks: sinks.values }),
  });
  return relativeError(result, expected);
}

/** The second launch finds the counters as the first left them. */
function launchDecodeTwice(context: CudaCheckContext, args: AttentionCudaArgs): void {
  const { stream } = context;
  const bytes = decodeWorkspaceBytes(stream.arch, stream.numSms, { ...args, isFp8: args.fp8 !== undefined });
  const workspace = { counters: context.zeros(bytes.counters), partials: context.allocate(bytes.partials) };
  launchDecodeAttention(stream, {
    ...args,
    ...workspace,
    out: context.allocate(args.numSequences * args.qRowWidth * 4),
  });
  launchDecodeAttention(stream, { ...args, ...workspace });
}

function launchPrefill(
  context: CudaCheckContext,
  args: AttentionCudaArgs,
  sequences: readonly AttentionSequence[],
): void {
  const last = sequences[sequences.length - 1];
  const starts = sequences.map((sequence) => sequence.queryStart);
  starts.push((last?.queryStart ?? 0) + (last?.queryLength ?? 0));
  const queryStarts = context.upload(Int32Array.from(starts));
  const maxQueryLength = Math.max(...sequences.map((sequence) => sequence.queryLength));
  launchPrefillAttention(context.stream, { ...args, queryStarts, maxQueryLength });
}

/** Blocks in an order of their own, so that a kernel that ignores the table fails. */
export function layOut(
  lengths: Lengths,
  blockSize: number,
): {
  readonly sequences: readonly AttentionSequence[];
  readonly numTokens: number;
  readonly blockTables: Int32Array;
  readonly maxBlocks: number;
  readonly numBlocks: number;
} {
  const counts = lengths.map(([queries, past]) => Math.ceil((queries + past) / blockSize));
  const numBlocks = counts.reduce((sum, count) => sum + count, 3);
  const maxBlocks = Math.max(...counts) + 1;
  const order = seededOrder(numBlocks, 4);
  const blockTables = new Int32Array(lengths.length * maxBlocks).fill(-1);
  const sequences: AttentionSequence[] = [];
  let numTokens = 0;
  let numUsed = 0;
  lengths.forEach(([queries, past], i) => {
    const blockTable = order.slice(numUsed, numUsed + (counts[i] ?? 0));
    blockTables.set(blockTable, i * maxBlocks);
    sequences.push({ queryStart: numTokens, queryLength: queries, contextLength: queries + past, blockTable });
    numTokens += queries;
    numUsed += counts[i] ?? 0;
  });
  return { sequences, numTokens, blockTables, maxBlocks, numBlocks };
}

function compact(rows: Float32Array, rowWidth: number, width: number): Float32Array {
  const numRows = rows.length / rowWidth;
  const out = new Float32Array(numRows * width);
  for (let i = 0; i < numRows; i++) out.set(rows.subarray(i * rowWidth, i * rowWidth + width), i * width);
  return out;
}

export const cudaChecks: readonly CudaCheck[] = [...variantChecks, ...rotatingChecks];
