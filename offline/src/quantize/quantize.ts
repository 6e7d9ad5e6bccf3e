/** Calibrates a model, quantizes its matrices and measures the loss. It knows no command line. */

import type { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import { isPackedDtype } from "@nereid/server/formats/tensors/tensor-source";
import type { Tokenizer } from "@nereid/server/formats/tokenizer/tokenizer";
import { loadTokenizer } from "@nereid/server/formats/tokenizer/tokenizer-files";
import type { LayoutMapping } from "@nereid/server/formats/trtllm/layout";
import { calibrateOnGpu } from "../build/calibrate-gpu.ts";
import { checkpointConfig } from "../checkpoint/checkpoint-config.ts";
import { type CheckpointSummary, writeCheckpoint } from "../checkpoint/checkpoint-writer.ts";
import {
  chooseCheckpointType,
  type DtypeName,
  expectEvenSplit,
  keepIntegers,
} from "../checkpoint/convert-checkpoint.ts";
import { type OpenedDecoder, openDecoder } from "../checkpoint/open-decoder.ts";
import { readTexts, tokenPieces } from "../run/text-data.ts";
import { deviceName, type ToolDevice } from "../run/tool-device.ts";
import { awqScales, type SearchedFactors, type SearchScales, searchFactors, smoothingScales } from "./awq-search.ts";
import { calibrate } from "./calibration.ts";
import type { InputStats } from "./input-stats.ts";
import { measurePerplexity, type Perplexity } from "./perplexity.ts";
import { type Calibrated, DEFAULT_GROUP_SIZE, type QuantFormat, quantizationOf, storageOf } from "./quant-formats.ts";

export interface QuantizeOptions {
  readonly modelDir: string;
  readonly outputDir: string;
  readonly format: QuantFormat;
  readonly dtype: DtypeName;
  readonly mapping: LayoutMapping;
  /** Inputs that share a scale; undefined: those of an INT4 model, or 128. */
  readonly groupSize: number | undefined;
  /** Whether factors and scales are searched; plain rounding otherwise. */
  readonly isSearched: boolean;
  readonly calibration: { readonly source: string; readonly maxTexts: number; readonly maxTokens: number };
  /** Undefined: perplexities are not measured. */
  readonly evaluation: { readonly source: string; readonly maxTexts: number } | undefined;
  readonly kvCacheAlgorithm: "FP8" | undefined;
  /** Quantizes the lm_head too (fp8). */
  readonly quantizesOutput?: boolean | undefined;
  readonly device: ToolDevice;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

export interface QuantizeSummary extends CheckpointSummary {
  readonly before: Perplexity | undefined;
  readonly after: Perplexity | undefined;
  readonly search: Pick<SearchedFactors, "error" | "plainError"> | undefined;
}

/** Longer pieces add little information and need memory for the logits of each token. */
const EVALUATION_TOKENS = 512;

export async function quantize(options: QuantizeOptions): Promise<QuantizeSummary> {
  const opened = await openDecoder(options.modelDir);
  try {
    expectEvenSplit(opened.parsed, options.mapping);
    if (options.quantizesOutput === true) expectOwnOutput(opened.parsed, options.mapping);
    const pieces = await evaluationPieces(options, opened);
    const before = await perplexityOf(options, options.modelDir, pieces, "measure before");
    const kept = keptIntegers(options, opened);
    const calibrated = kept === undefined ? await search(options, opened) : UNSEARCHED;
    const written = await write(options, opened, calibrated, kept);
    const after = await perplexityOf(options, options.outputDir, pieces, "measure after");
    return { ...written, before, after, search: calibrated.found };
  } finally {
    await opened.tensors.close();
  }
}

/** @throws ToolError for an lm_head that is tied, or not divisible by the ranks */
function expectOwnOutput({ config }: OpenedDecoder["parsed"], { tpSize }: LayoutMapping): void {
  if (config.tieWordEmbeddings) {
    throw new ToolError("--quantize_lm_head: the output of this model is its embedding, which stays as it is", {
      fix: "Leave the flag out",
    });
  }
  if (config.vocabSize % tpSize === 0) return;
  throw new ToolError(`--quantize_lm_head: ${config.vocabSize} outputs do not spread evenly over ${tpSize} ranks`, {
    fix: "Give another --tp_size, or leave the flag out",
  });
}

const UNSEARCHED: Calibrated = { stats: undefined, found: undefined };

/** INT4 matrices are not rounded again, unless another group size is requested. */
function keptIntegers({ format, groupSize, kvCacheAlgorithm, reporter }: QuantizeOptions, opened: OpenedDecoder) {
  if (format !== "int4_awq") return undefined;
  const kept = keepIntegers(opened, { needsZeros: false, cache: kvCacheAlgorithm ?? null });
  if (typeof kept !== "object" || (groupSize ?? kept.groupSize) !== kept.groupSize) return undefined;
  const { groupSize: size, quantization } = kept;
  reporter.info(
    `The matrices are INT4 already: their integers are kept as ${quantization.quant_algo}, groups of ${size}`,
  );
  return kept;
}

async function search(options: QuantizeOptions, opened: OpenedDecoder): Promise<Calibrated> {
  const { format, reporter, signal } = options;
  const isSearched = options.isSearched && !isStoredInBlocks(opened);
  if (isSearched !== options.isSearched) {
    reporter.warn("The matrices are quantized already: they are rounded anew, without a search for factors");
  }
  const scales = scalesFor(options);
  const needsStats = format === "fp8" || format === "w4a8_awq" || (scales !== undefined && isSearched);
  const stats = needsStats ? await inputStats(options, opened) : undefined;
  if (stats === undefined || scales === undefined || !isSearched) return { stats, found: undefined };
  const task = reporter.startTask({ task: "search", unit: "layers", total: opened.parsed.config.numLayers });
  try {
    const found = await searchFactors(opened, stats, scales, () => {
      signal.throwIfAborted();
      task.add(1);
    });
    return { stats, found };
  } finally {
    task.end();
  }
}

/** Whether matrices are quantized, as in AWQ, GPTQ and GGUF files: factors cannot restore their accuracy. */
function isStoredInBlocks({ tensors }: OpenedDecoder): boolean {
  return [...tensors.tensors.values()].some(({ dtype }) => isPackedDtype(dtype));
}

function scalesFor({ format, groupSize = DEFAULT_GROUP_SIZE }: QuantizeOptions): SearchScales | undefined {
  if (format.endsWith("awq")) return awqScales(groupSize);
  return format === "int8_sq" ? smoothingScales() : undefined;
}

async function inputStats(options: QuantizeOptions, opened: OpenedDecoder): Promise<ReadonlyMap<string, InputStats>> {
  const { source, maxTexts, maxTokens } = options.calibration;
  const tokenizer = await openTokenizer(options.modelDir);
  const longest = Math.min(maxTokens, opened.parsed.config.maxPositions);
  const pieces = tokenPieces(await readTexts(source), tokenizer, { maxTokens: longest, maxPieces: maxTexts });
  if (pieces.length === 0) throw new ToolError(`${source} holds no text to calibrate with`);
  const task = options.reporter.startTask({ task: "calibrate", unit: "texts", total: pieces.length });
  try {
    const onPiece = (): void => {
      options.signal.throwIfAborted();
      task.add(1);
    };
    return (await statsFromGpu(options, opened, pieces, onPiece)) ?? (await calibrate(opened, pieces, onPiece));
  } finally {
    task.end();
  }
}

/** Undefined: use the CPU. */
async function statsFromGpu(
  { device, modelDir, reporter, signal }: QuantizeOptions,
  { parsed }: OpenedDecoder,
  pieces: readonly Int32Array[],
  onPiece: () => void,
): Promise<ReadonlyMap<string, InputStats> | undefined> {
  if (device.kind === "cpu") return undefined;
  try {
    return await calibrateOnGpu({
      modelDir,
      ordinal: device.ordinal,
      numLayers: parsed.config.numLayers,
      pieces,
      onPiece,
    });
  } catch (error) {
    signal.throwIfAborted();
    const reason = error instanceof Error ? error.message : String(error);
    reporter.warn(`${deviceName(device)} cannot calibrate, so the CPU does: ${reason}`);
    return undefined;
  }
}

async function write(
  options: QuantizeOptions,
  opened: OpenedDecoder,
  calibrated: Calibrated,
  kept: ReturnType<typeof keptIntegers>,
): Promise<CheckpointSummary> {
  const { files, parsed, tensors } = opened;
  const { mapping, outputDir, reporter, signal } = options;
  const dtype = chooseCheckpointType(options.dtype, parsed, tensors);
  const quantization = kept?.quantization ?? quantizationOf(options);
  const config = checkpointConfig({ source: files.config, config: parsed.config, dtype, mapping, quantization });
  const storage = kept?.storage ?? storageOf(options, dtype, calibrated, isStoredInBlocks(opened));
  const hasCacheScales = options.kvCacheAlgorithm !== undefined;
  const job = { parsed, tensors, mapping, dtype, storage, hasCacheScales, config, outputDir, reporter, signal };
  return writeCheckpoint({ ...job, tokenizerDir: options.modelDir, factors: calibrated.found?.factors });
}

async function evaluationPieces({ evaluation, modelDir }: QuantizeOptions, { parsed }: OpenedDecoder) {
  if (evaluation === undefined) return [];
  const tokenizer = await openTokenizer(modelDir);
  const maxTokens = Math.min(EVALUATION_TOKENS, parsed.config.maxPositions);
  const texts = await readTexts(evaluation.source);
  return tokenPieces(texts, tokenizer, { maxTokens, maxPieces: evaluation.maxTexts });
}

async function openTokenizer(modelDir: string): Promise<Tokenizer> {
  return loadTokenizer(modelDir).catch((cause: unknown) => {
    throw new ToolError(cause instanceof Error ? cause.message : String(cause), {
      cause,
      fix: "Texts need the model's tokenizer.json beside its weights",
    });
  });
}

async function perplexityOf(
  { device, reporter, signal }: QuantizeOptions,
  modelDir: string,
  pieces: readonly Int32Array[],
  name: string,
): Promise<Perplexity | undefined> {
  if (pieces.length === 0) return undefined;
  const task = reporter.startTask({ task: name, unit: "texts", total: pieces.length });
  try {
    const onPiece = (): void => {
      signal.throwIfAborted();
      task.add(1);
    };
    return await measurePerplexity(modelDir, pieces, onPiece, { device, reporter });
  } finally {
    task.end();
  }
}
