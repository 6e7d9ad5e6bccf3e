/**
 * Builds a GPU engine from a checkpoint: weights in device types, and the fastest GEMM algorithms, so that loading
 * measures nothing. It knows no command line.
 */
import { createElementConverter } from "@nereid/server/device/cpu/element-converter";
import { transposeFloats } from "@nereid/server/device/cuda/convert-floats";
import type { EngineHeader, EngineIntegers } from "@nereid/server/formats/trtllm/engine-header";
import { integerParts } from "@nereid/server/formats/trtllm/engine-integers";
import { readRankMapping } from "@nereid/server/formats/trtllm/rank-mapping";
import type { StoredTensor, TensorSource } from "@nereid/server/formats/tensors/tensor-source";
import { describeWeights, findPrefix } from "@nereid/server/models/weights/weight-plan";
import { widenBlocks } from "@nereid/server/models/weights/widened-tensors";
import { type OpenedDecoder, openDecoder } from "../checkpoint/open-decoder.ts";
import { expectWritable, writeEngineFolder } from "./engine-folder.ts";
import { type EngineTensorPlan, type EngineWriter, planEngine } from "./engine-writer.ts";
import { type MeasuredGpu, measureGpu } from "./measure-gpu.ts";
import type { ProgressTask, Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";

export interface CudaBuildOptions {
  readonly checkpointDir: string;
  readonly outputDir: string;
  readonly ordinal: number;
  /** Weight type of layers; undefined: as stored, with floats as BF16. */
  readonly matrices: EngineHeader["matrices"];
  /** Maximum rows of one step: up to there sizes are measured. */
  readonly maxTokens: number;
  readonly maxSequences: number;
  readonly buildConfig: Readonly<Record<string, unknown>>;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

export interface CudaBuildSummary extends MeasuredGpu {
  readonly numBytes: number;
}

export async function buildCudaEngine(options: CudaBuildOptions): Promise<CudaBuildSummary> {
  const mapping = await readRankMapping(options.checkpointDir);
  const measured = await measureGpu({ ...options, mapping, modelDir: options.checkpointDir });
  return { ...measured, numBytes: await writeCudaEngine(options, measured) };
}

/** Uses no GPU: measurements are passed in. */
export async function writeCudaEngine(
  options: Omit<CudaBuildOptions, "ordinal" | "maxTokens" | "maxSequences">,
  { target, products, times }: MeasuredGpu,
): Promise<number> {
  const { checkpointDir, outputDir, matrices, buildConfig, reporter, signal } = options;
  const decoder = await openDecoder(checkpointDir);
  const opened = { ...decoder, tensors: widenBlocks(decoder.tensors) };
  try {
    expectWritable(opened);
    const sources = engineSources(opened);
    const integers = sources.flatMap(({ integers: matrix }) => matrix ?? []);
    const tensors = sources.flatMap(plansOf);
    const header = planEngine(tensors, target, { integers, matrices, products });
    const notes = { matrices: matrices ?? "as stored", products: timesOf(times) };
    const folder = { checkpointDir, outputDir, buildConfig, header, notes, keepsMapping: true, opened, reporter };
    return await writeEngineFolder(folder, async (file, task) => {
      let index = 0;
      for (const source of sources) {
        signal.throwIfAborted();
        index = await writeSource(file, index, source, opened.tensors, task);
      }
    });
  } finally {
    await opened.tensors.close();
  }
}

/** A model tensor under its own name; multi-GPU shards are cut when it is read. */
interface EngineSource {
  readonly stored: StoredTensor;
  /** [inputs, outputs] in the model, transposed here. */
  readonly isTurned: boolean;
  readonly dtype: "F32" | "F16" | "BF16";
  /** An INT4 matrix, which stays INT4. */
  readonly integers: EngineIntegers | undefined;
}

function engineSources({ parsed, tensors }: OpenedDecoder): readonly EngineSource[] {
  const { config, weights } = parsed;
  const found = new Map<string, EngineSource>();
  const prefix = findPrefix(weights, (name) => tensors.tensors.has(name));
  describeWeights(config, weights, prefix, ({ kind, sources }) => {
    for (const { name, change } of sources) {
      const stored = tensors.tensors.get(name);
      if (stored === undefined) throw new ToolError(`The weights lack tensor "${name}"`);
      const isTurned = change === "transpose";
      if (!found.has(name)) found.set(name, { ...sourceOf(stored, kind === "exact", tensors), isTurned });
    }
  });
  return [...found.values()];
}

function sourceOf(stored: StoredTensor, isExact: boolean, { integers }: TensorSource): Omit<EngineSource, "isTurned"> {
  const { name, shape, dtype } = stored;
  const [outputs = 0, inputs = 0] = shape;
  const int4 = integers?.get(name)?.int4;
  if (int4 !== undefined) return { stored, dtype: "BF16", integers: { name, outputs, inputs, ...int4 } };
  if (!isExact || integers?.has(name) === true) return { stored, dtype: "BF16", integers: undefined };
  if (dtype === "F32" || dtype === "F16" || dtype === "BF16") return { stored, dtype, integers: undefined };
  throw new ToolError(`Tensor "${name}": expected F32, F16 or BF16 on a GPU, got ${dtype}`);
}

function plansOf({ stored, dtype, integers, isTurned }: EngineSource): readonly EngineTensorPlan[] {
  const shape = isTurned ? stored.shape.toReversed() : stored.shape;
  if (integers === undefined) return [{ name: stored.name, dtype, shape }];
  return integerParts(integers).map(({ name, dtype: type, shape }) => ({ name, dtype: type, shape }));
}

async function writeSource(
  file: EngineWriter,
  index: number,
  source: EngineSource,
  files: TensorSource,
  task: ProgressTask,
): Promise<number> {
  const { stored, integers } = source;
  if (integers === undefined) {
    const { write, end } = file.writer(index);
    for await (const piece of source.isTurned ? turnedPieces(source, files) : floatPieces(source, files)) {
      write(piece);
      task.add(piece.byteLength, stored.name);
    }
    end();
    return index + 1;
  }
  const matrix = await files.integers?.get(stored.name)?.readInt4();
  if (matrix === undefined) throw new Error(`tensor "${stored.name}" is no matrix of integers`);
  const parts = integerParts(integers);
  for (const [i, part] of parts.entries()) {
    const { write, end } = file.writer(index + i);
    const bytes = part.bytesOf(matrix);
    write(bytes);
    task.add(bytes.byteLength, stored.name);
    end();
  }
  return index + parts.length;
}

const PIECE_ELEMENTS: number = 1 << 20;
const TYPES = { F32: "f32", F16: "f16", BF16: "bf16" } as const;
const BYTES = { f32: 4, f16: 2, bf16: 2 } as const;

async function* floatPieces({ stored, dtype }: EngineSource, files: TensorSource): AsyncGenerator<Uint8Array> {
  const convert = createElementConverter();
  const columns = stored.shape.at(-1) ?? 1;
  const numRows = stored.shape.reduce((product, size) => product * size, 1) / columns;
  const step = Math.max(1, Math.floor(PIECE_ELEMENTS / columns));
  const from = files.integers?.has(stored.name) === true ? "f32" : floatOf(stored);
  for (let row = 0; row < numRows; row += step) {
    const count = Math.min(step, numRows - row);
    yield convert(from, TYPES[dtype], await readRows(stored, files, row, count));
  }
}

async function readRows(stored: StoredTensor, files: TensorSource, row: number, count: number): Promise<Uint8Array> {
  const integers = files.integers?.get(stored.name);
  if (integers !== undefined) {
    const { buffer, byteOffset, byteLength } = await integers.readFloats(row, count);
    return new Uint8Array(buffer, byteOffset, byteLength);
  }
  const size = (stored.shape.at(-1) ?? 1) * BYTES[floatOf(stored)];
  const bytes = new Uint8Array(count * size);
  await files.read(stored.name, bytes, row * size);
  return bytes;
}

/** One whole matrix is in memory. */
async function* turnedPieces({ stored, dtype }: EngineSource, files: TensorSource): AsyncGenerator<Uint8Array> {
  const [rows = 0, columns = 0] = stored.shape;
  const from = floatOf(stored);
  const whole = await readRows(stored, files, 0, rows);
  yield createElementConverter()(from, TYPES[dtype], transposeFloats(whole, BYTES[from], rows, columns));
}

function floatOf({ name, dtype }: StoredTensor): (typeof TYPES)[keyof typeof TYPES] {
  if (dtype === "F32" || dtype === "F16" || dtype === "BF16") return TYPES[dtype];
  throw new ToolError(`Tensor "${name}": expected F32, F16 or BF16 on a GPU, got ${dtype}`);
}

function timesOf(times: MeasuredGpu["times"]): readonly Readonly<Record<string, unknown>>[] {
  return [...times].map(([shape, { bestUs, firstUs, count }]) => {
    return { shape, us: bestUs, first_guess_us: firstUs, measured: count };
  });
}
