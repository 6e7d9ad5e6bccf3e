/**
 * Writes a TensorRT-LLM checkpoint: config.json and the tensors of each rank, in pieces. The storage of quantized
 * matrices is in `quantize/`.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { FloatType } from "@nereid/server/device/cpu/convert-elements";
import { createElementConverter } from "@nereid/server/device/cpu/element-converter";
import { openAtomicFolder } from "@nereid/server/files/atomic-output";
import { requireFreeBytes } from "@nereid/server/files/disk-space";
import { existingOutput } from "@nereid/server/files/output-folder";
import type { Reporter } from "@nereid/server/files/progress";
import type { SafetensorsDtype } from "@nereid/server/formats/tensors/safetensors-header";
import type { TensorSource } from "@nereid/server/formats/tensors/tensor-source";
import {
  type LayoutMapping,
  type LayoutTensor,
  rankColumns,
  rankShape,
  rankSlices,
  stageTensors,
} from "@nereid/server/formats/trtllm/layout";
import type { ParsedDecoder } from "@nereid/server/models/config/parse-decoder-config";
import { findPrefix } from "@nereid/server/models/weights/weight-plan";
import { type LinearStorage, type RankMatrix, rowPieces } from "../quantize/linear-storage.ts";
import { cutColumns, type FactorsByName, RowReader } from "./row-reader.ts";
import { planBytes, type SafetensorsEntry, SafetensorsWriter } from "./safetensors-writer.ts";
import { copyTokenizer } from "./tokenizer-copy.ts";

export interface CheckpointJob {
  readonly parsed: ParsedDecoder;
  readonly tensors: TensorSource;
  readonly mapping: LayoutMapping;
  readonly dtype: FloatType;
  /** Undefined: matrices as floats. */
  readonly storage: LinearStorage | undefined;
  /** Factors folded into the weights. */
  readonly factors?: FactorsByName | undefined;
  /** Whether each layer declares an 8-bit KV cache with a scale of one. */
  readonly hasCacheScales?: boolean | undefined;
  /** Content of config.json. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly outputDir: string;
  /** Folder of the tokenizer to copy. */
  readonly tokenizerDir: string;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

export interface CheckpointSummary {
  readonly numRanks: number;
  readonly numBytes: number;
}

const DTYPES: Readonly<Record<FloatType, SafetensorsDtype>> = { f32: "F32", f16: "F16", bf16: "BF16" };

export async function writeCheckpoint(job: CheckpointJob): Promise<CheckpointSummary> {
  const { outputDir, mapping, reporter } = job;
  const ranks = planRanks(job);
  const numBytes = ranks.flatMap(({ plans }) => plans).reduce((sum, plan) => sum + planBytes(plan), 0);
  await requireFreeBytes(outputDir, numBytes);
  await using folder = await openAtomicFolder(outputDir, { existing: await existingOutput(outputDir) });
  const task = reporter.startTask({ task: "write", unit: "bytes", total: numBytes });
  try {
    for (const rank of ranks) {
      const path = join(folder.path, `rank${rank.stage * mapping.tpSize + rank.tpRank}.safetensors`);
      await writeRank(job, rank, path, (bytes, item) => task.add(bytes, item));
    }
  } finally {
    task.end();
  }
  await writeFile(join(folder.path, "config.json"), `${JSON.stringify(job.config, undefined, 2)}\n`);
  await copyTokenizer(job.tokenizerDir, folder.path);
  await folder.commit();
  return { numRanks: ranks.length, numBytes };
}

interface RankPlan {
  readonly stage: number;
  readonly tpRank: number;
  readonly tensors: readonly LayoutTensor[];
  readonly plans: readonly SafetensorsEntry[];
}

function planRanks(job: CheckpointJob): readonly RankPlan[] {
  const { parsed, tensors: files, mapping } = job;
  const prefix = findPrefix(parsed.weights, (name) => files.tensors.has(name));
  return Array.from({ length: mapping.ppSize }, (_, stage) => {
    const tensors = stageTensors(parsed.config, parsed.weights, prefix, mapping, stage);
    for (const tensor of tensors) expectSources(tensor, files);
    return Array.from({ length: mapping.tpSize }, (__, tpRank) => {
      const plans = [...tensors.flatMap((tensor) => planTensor(job, tensor, tpRank)), ...planOnes(job, tensors)];
      return { stage, tpRank, tensors, plans };
    });
  }).flat();
}

function expectSources({ parts }: LayoutTensor, files: TensorSource): void {
  for (const { name, shape } of parts) {
    const stored = files.tensors.get(name);
    if (stored === undefined) throw new Error(`the weights lack tensor "${name}" [${shape.join(", ")}]`);
    if (stored.shape.length === shape.length && shape.every((size, i) => size === stored.shape[i])) continue;
    throw new Error(
      `tensor "${name}": expected [${shape.join(", ")}] from the config, got [${stored.shape.join(", ")}]`,
    );
  }
}

/** Scalar scales, all equal to one. */
function planOnes(
  { parsed, mapping, hasCacheScales, storage }: CheckpointJob,
  tensors: readonly LayoutTensor[],
): readonly SafetensorsEntry[] {
  const numLayers = hasCacheScales === true ? parsed.config.numLayers / mapping.ppSize : 0;
  const names = [
    ...Array.from({ length: numLayers }, (_, i) => `transformer.layers.${i}.attention.kv_cache_scaling_factor`),
    ...(storage?.ones?.(new Set(tensors.map(({ name }) => name))) ?? []),
  ];
  return names.map((name) => ({ name, dtype: "F32", shape: [1] }));
}

function planTensor(job: CheckpointJob, tensor: LayoutTensor, tpRank: number): readonly SafetensorsEntry[] {
  const storage = storageOf(job, tensor);
  if (storage !== undefined) return storage.plan(rankMatrix(job, tensor, tpRank));
  const dtype = DTYPES[typeOf(job, tensor)];
  return [{ name: tensor.name, dtype, shape: rankShape(tensor, tpRank, job.mapping.tpSize) }];
}

const OUTPUT = "lm_head.weight";

/** Undefined: it stays floats. */
function storageOf({ storage }: CheckpointJob, tensor: LayoutTensor): LinearStorage | undefined {
  const isOutput = tensor.name === OUTPUT && storage?.takesOutput === true;
  const isMatrix = (tensor.kind === "linear" || isOutput) && tensor.columns !== undefined;
  return isMatrix && storage?.takes?.(tensor) !== false ? storage : undefined;
}

/** Routers, embeddings and folded norms would lose too much accuracy in fewer bits. */
function typeOf({ dtype, factors }: CheckpointJob, { kind, addsOne, parts }: LayoutTensor): FloatType {
  const isChanged = kind === "vector" && parts.some(({ name }) => factors?.has(name) === true);
  return kind === "router" || addsOne || isChanged ? "f32" : dtype;
}

async function writeRank(
  job: CheckpointJob,
  { tensors, plans, tpRank }: RankPlan,
  path: string,
  onBytes: (numBytes: number, item: string) => void,
): Promise<void> {
  const reader = new RowReader(job.tensors, createElementConverter(), job.factors);
  await using file = await SafetensorsWriter.create(path, plans, { format: "pt" });
  for (const tensor of tensors) {
    const write = async (name: string, bytes: Uint8Array): Promise<void> => {
      job.signal.throwIfAborted();
      await file.write(name, bytes);
      onBytes(bytes.byteLength, tensor.name);
    };
    const storage = storageOf(job, tensor);
    if (storage !== undefined) {
      const matrix = rankMatrix(job, tensor, tpRank);
      const read = (first: number, count: number) => readFloatRows(reader, tensor, matrix, first, count);
      await storage.write({ ...matrix, read }, write);
    } else await writeFloats(job, reader, tensor, tpRank, write);
  }
  for (const { name } of planOnes(job, tensors)) await file.write(name, new Uint8Array(Float32Array.of(1).buffer));
  file.finish();
}

async function writeFloats(
  job: CheckpointJob,
  reader: RowReader,
  tensor: LayoutTensor,
  tpRank: number,
  write: (name: string, bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  const { columns = 1 } = tensor;
  const { tpSize } = job.mapping;
  const type = typeOf(job, tensor);
  const cut = rankColumns(tensor, tpRank, tpSize);
  let written = 0;
  for (const { part, sourceRow, numRows } of rankSlices(tensor, tpRank, tpSize)) {
    for (const [first, count] of rowPieces(numRows, columns)) {
      const rows = cutColumns(await reader.read(part.name, tensor, sourceRow + first, count, type), type, columns, cut);
      await write(tensor.name, rows);
      written += rows.byteLength;
    }
  }
  const plan = { name: tensor.name, dtype: DTYPES[type], shape: rankShape(tensor, tpRank, tpSize) };
  const padding = planBytes(plan) - written;
  if (padding > 0) await write(tensor.name, new Uint8Array(padding));
}

function rankMatrix({ mapping }: CheckpointJob, tensor: LayoutTensor, tpRank: number): Omit<RankMatrix, "read"> {
  const slices = rankSlices(tensor, tpRank, mapping.tpSize);
  return {
    module: tensor.name.slice(0, -".weight".length),
    numExperts: tensor.numExperts,
    numRows: slices.reduce((sum, { numRows }) => sum + numRows, 0),
    numColumns: tensor.columns ?? 1,
    columns: rankColumns(tensor, tpRank, mapping.tpSize),
    slices,
  };
}

/** Rows of several parts, concatenated. */
async function readFloatRows(
  reader: RowReader,
  tensor: LayoutTensor,
  { slices, numColumns }: Pick<RankMatrix, "slices" | "numColumns">,
  first: number,
  count: number,
): Promise<Float32Array> {
  const out = new Float32Array(count * numColumns);
  let start = 0;
  for (const { part, sourceRow, numRows } of slices) {
    const from = Math.max(first, start);
    const to = Math.min(first + count, start + numRows);
    if (from < to) {
      const bytes = await reader.read(part.name, tensor, sourceRow + from - start, to - from, "f32");
      out.set(new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4), (from - first) * numColumns);
    }
    start += numRows;
  }
  return out;
}
