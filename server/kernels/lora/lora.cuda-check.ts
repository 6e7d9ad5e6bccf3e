/**
 * Adapters on a GPU against the reference: several in one step, rows without any, stacked projections, codes. Source:
 * lora.cu.
 */
import type { ElemType } from "../cuda/launch-args.ts";
import { roundUp } from "../cuda/launch-args.ts";
import { type CudaCheck, type CudaCheckContext, relativeError } from "../testing/cuda-check.ts";
import { downloadFloats, seededFloats, uploadFloats, uploadRandom } from "../testing/cuda-check-data.ts";
import { LORA_PART_BYTES, LORA_PARTS, LORA_RANK_STEP, launchLora, loraLowBytes, writeLoraPart } from "./lora.cuda.ts";
import { type LoraPartRef, loraRef } from "./lora.ref.ts";
import type { LoraGroup, LoraSpan } from "./lora-rows.ts";
import { planTiles, tileGroups, writeTiles } from "./lora-tiles.ts";

interface Variant {
  readonly what: string;
  readonly type: ElemType;
  readonly isCoded?: boolean;
  /** Scales of rows and columns are left to the reader of the sums. */
  readonly leavesScales?: boolean;
  readonly inputs: number;
  readonly width: number;
  /** Columns and outputs of the parts; an adapter lacks the second when its number is even. */
  readonly parts: readonly (readonly [column: number, outputs: number])[];
  readonly ranks: readonly number[];
  readonly spans: readonly LoraSpan[];
  readonly isFixed?: boolean;
}

/** The parts of the linear layer lie behind those of others. */
const FIRST_PART = LORA_PARTS;

function spansOf(...parts: readonly (readonly [length: number, adapter?: number])[]): readonly LoraSpan[] {
  let queryStart = 0;
  return parts.map(([queryLength, adapter]) => {
    queryStart += queryLength;
    return { queryStart: queryStart - queryLength, queryLength, adapter };
  });
}

const DECODING: readonly LoraSpan[] = spansOf([1, 1], [1], [1, 0], [1, 1], [1, 2], [1]);
const STACKED = { inputs: 96, width: 80 };
const QKV: Variant["parts"] = [
  [0, 48],
  [48, 16],
  [64, 16],
];

const VARIANTS: readonly Variant[] = [
  { what: "f32 decoding", type: "f32", ...STACKED, parts: QKV, ranks: [4, 16, 33], spans: DECODING },
  {
    what: "f32 prompts",
    type: "f32",
    inputs: 20,
    width: 36,
    parts: [[0, 36]],
    ranks: [8, 3],
    spans: spansOf([11, 1], [2], [3, 0]),
  },
  {
    what: "bf16 decoding, recorded",
    type: "bf16",
    ...STACKED,
    parts: QKV,
    ranks: [4, 16, 33],
    spans: DECODING,
    isFixed: true,
  },
  {
    what: "bf16 prompts",
    type: "bf16",
    inputs: 200,
    width: 328,
    parts: [
      [0, 164],
      [164, 164],
    ],
    ranks: [64, 8],
    spans: spansOf([40, 1], [5], [3, 0], [9, 1]),
  },
  {
    what: "bf16 columns by themselves",
    type: "bf16",
    inputs: 64,
    width: 70,
    parts: [
      [0, 37],
      [37, 33],
    ],
    ranks: [16],
    spans: spansOf([2, 0], [1]),
  },
  { what: "bf16 of codes", type: "bf16", isCoded: true, ...STACKED, parts: QKV, ranks: [16, 8, 20], spans: DECODING },
  {
    what: "bf16 sums whose scales are left",
    type: "bf16",
    leavesScales: true,
    ...STACKED,
    parts: QKV,
    ranks: [16, 8, 20],
    spans: DECODING,
  },
  {
    what: "bf16 many rows of codes",
    type: "bf16",
    isCoded: true,
    inputs: 160,
    width: 64,
    parts: [[0, 64]],
    ranks: [16],
    spans: spansOf([1], [33, 0]),
  },
];

export const cudaChecks: readonly CudaCheck[] = VARIANTS.map((variant) => ({
  name: `lora ${variant.what}`,
  maxError: variant.type === "f32" ? 1e-5 : 6e-3,
  run: (context: CudaCheckContext) => runVariant(context, variant),
}));

interface Placed {
  /** Address of each adapter. */
  readonly addresses: readonly bigint[];
  readonly parts: readonly (readonly LoraPartRef[])[];
  readonly maxRank: number;
}

async function runVariant(context: CudaCheckContext, variant: Variant): Promise<number> {
  const { type, isCoded = false, leavesScales = false, inputs, width, spans, isFixed = false } = variant;
  const numRows = spans.reduce((sum, { queryLength }) => sum + queryLength, 0);
  const x = uploadRandom(context, isCoded ? "e4m3" : type, numRows * inputs, 1);
  const scales = uploadFloats(context, "f32", seededFloats(numRows, 2).map(Math.abs));
  const y = uploadRandom(context, type, numRows * width, 3);
  const columns = uploadFloats(
    context,
    "f32",
    seededFloats(width, 4).map((value) => 0.5 + Math.abs(value)),
  );
  const placed = place(context, variant);
  const groups = tileGroups(spans, undefined);
  launchLora(context.stream, {
    type,
    ...uploadTiles(context, groups, numRows, isFixed, placed.addresses),
    firstPart: FIRST_PART,
    x: x.pointer,
    xScales: isCoded ? scales.pointer : undefined,
    y: y.pointer,
    sumScales: leavesScales ? { rows: scales.pointer, columns: columns.pointer } : undefined,
    inputs,
    width,
    numRows,
    maxRank: placed.maxRank,
    low: context.allocate(loraLowBytes(numRows, placed.maxRank)),
  });
  const result = await downloadFloats(context, type, y.pointer, numRows * width);
  const values = isCoded ? x.values.map((value, i) => value * (scales.values[Math.floor(i / inputs)] ?? 0)) : x.values;
  const scaleAt = (at: number): number =>
    leavesScales ? (scales.values[Math.floor(at / width)] ?? 0) * (columns.values[at % width] ?? 0) : 1;
  let expected = y.values.map((value, i) => value * scaleAt(i));
  for (const [adapter, parts] of placed.parts.entries()) {
    const rows = rowsOf(spans, adapter);
    expected = new Float32Array(loraRef({ x: values, y: expected, inputs, width, rows, parts }));
  }
  return relativeError(
    result.map((value, i) => value * scaleAt(i)),
    expected,
  );
}

function rowsOf(spans: readonly LoraSpan[], adapter: number): readonly number[] {
  return spans
    .filter((span) => span.adapter === adapter)
    .flatMap(({ queryStart, queryLength }) => Array.from({ length: queryLength }, (_, i) => queryStart + i));
}

/** The matrices and their descriptions; ranks are filled up with zeros. */
function place(context: CudaCheckContext, { type, inputs, parts, ranks }: Variant): Placed {
  const addresses: bigint[] = [];
  const all = ranks.map((rank, adapter) => {
    const padded = roundUp(rank, LORA_RANK_STEP);
    const table = new DataView(new ArrayBuffer((FIRST_PART + LORA_PARTS) * LORA_PART_BYTES));
    const own = parts.flatMap(([column, outputs], i): LoraPartRef[] => {
      if (i === 1 && adapter % 2 === 0 && parts.length > 2) return [];
      const a = uploadFloats(context, type, wide(rank, padded, inputs, adapter * 10 + i));
      const b = uploadFloats(context, type, tall(outputs, rank, padded, adapter * 10 + i + 5));
      const described = { a: a.pointer, b: b.pointer, rank: padded, column, outputs };
      writeLoraPart(table, (FIRST_PART + i) * LORA_PART_BYTES, described);
      return [{ a: a.values, b: b.values, rank: padded, column }];
    });
    addresses.push(context.upload(table));
    return own;
  });
  return { addresses, parts: all, maxRank: roundUp(Math.max(...ranks), LORA_RANK_STEP) };
}

function wide(rank: number, padded: number, inputs: number, seed: number): Float32Array {
  const a = new Float32Array(padded * inputs);
  a.set(seededFloats(rank * inputs, seed, 0.3));
  return a;
}

function tall(outputs: number, rank: number, padded: number, seed: number): Float32Array {
  const b = new Float32Array(outputs * padded);
  const values = seededFloats(outputs * rank, seed, 0.3);
  for (let o = 0; o < outputs; o++) b.set(values.subarray(o * rank, (o + 1) * rank), o * padded);
  return b;
}

export function uploadTiles(
  context: CudaCheckContext,
  groups: readonly LoraGroup[],
  numRows: number,
  isFixed: boolean,
  addresses: readonly bigint[],
): ReturnType<typeof planTiles> & { readonly adapters: bigint; readonly tileRows: bigint } {
  const tiles = planTiles(groups, numRows, isFixed);
  const words = new Int32Array(tiles.numTiles * (2 + tiles.rowsPerTile));
  const rowsAt = 2 * tiles.numTiles;
  writeTiles(groups, tiles, (adapter) => addresses[adapter] ?? 0n, words, { adaptersAt: 0, rowsAt });
  return {
    ...tiles,
    adapters: context.upload(words.subarray(0, rowsAt)),
    tileRows: context.upload(words.slice(rowsAt)),
  };
}

/** The first GEMM of an MLP of 8 billion weights with rank 16: one sequence, 64 with 8 adapters, a prompt. */
