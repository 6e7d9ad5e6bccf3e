/**
 * Turns generated tokens into the output tensors of an LLM model. Every wanted output that the configuration declares is
 * given: those that were not asked for by a flag are zeros. Pure.
 */
import { type Datatype, elementSize, type FixedDatatype } from "@nereid/wire";
import { numberToBf16 } from "../../core/bf16.ts";
import { numberToFp16 } from "../../core/fp16.ts";
import type { ConfigDataType, ModelConfig } from "../../core/model-config.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { GeneratedExtras, Usage } from "../../engine/request/generate.ts";

/** One beam of a row; without beam search there is one. */
export interface BeamOutput {
  readonly tokenIds: Int32Array;
  readonly logProbs: Float32Array;
  readonly cumLogProb: number;
  /** The new ones among `tokenIds`, which may begin with the prompt. */
  readonly numNewTokens: number;
  /** [new tokens, vocab] */
  readonly logits: Float32Array;
}

/** The outputs of one row in one response. */
export interface RowOutput {
  readonly beams: readonly BeamOutput[];
  readonly batchIndex: number;
  readonly sequenceIndex: number;
  /** Rarely requested extras, new since the last response. */
  readonly extras: Readonly<GeneratedExtras> | undefined;
  /** Rows of the prompt among them. */
  readonly numContextRows: number;
  readonly topLogProbs: number;
  /** On the last response of the row, when performance figures were asked for. */
  readonly usage: Usage | undefined;
  /** The same when cache figures were asked for. */
  readonly cacheUsage: Pick<Usage, "newBlocks" | "reusedBlocks"> | undefined;
  readonly numInputTokens: number;
  readonly numOutputTokens: number;
}

const PADDING_ID = -1;

/** The tensors of one response that carries these rows. */
export function outputTensors(config: ModelConfig, wanted: readonly string[], rows: readonly RowOutput[]): Tensor[] {
  const batch = config.max_batch_size > 0 ? [rows.length] : [];
  const tensors: Tensor[] = [];
  for (const { name, data_type: dataType, dims } of config.output) {
    if (!wanted.includes(name)) continue;
    tensors.push(
      known(name, dataType, batch, rows) ?? zeros(name, dataType, [...batch, ...dims.map((dim) => Math.max(1, dim))]),
    );
  }
  return tensors;
}

function known(
  name: string,
  dataType: ConfigDataType,
  batch: readonly number[],
  rows: readonly RowOutput[],
): Tensor | undefined {
  return ofBeams(name, dataType, batch, rows) ?? ofExtras(name, dataType, batch, rows) ?? ofUsage(name, batch, rows);
}

function ofBeams(
  name: string,
  dataType: ConfigDataType,
  batch: readonly number[],
  rows: readonly RowOutput[],
): Tensor | undefined {
  const numBeams = Math.max(...rows.map((row) => row.beams.length));
  switch (name) {
    case "output_ids": {
      const parts = rows.flatMap((row) => beamParts(row, numBeams, (beam) => beam.tokenIds));
      const { values, width } = joinRows(parts, Int32Array, PADDING_ID);
      return { name, datatype: "INT32", shape: [...batch, numBeams, width], data: bytesOf(values) };
    }
    case "sequence_length":
      return ints(
        name,
        [...batch, numBeams],
        rows.flatMap((row) => beamParts(row, numBeams, (beam) => beam.tokenIds).map((part) => part?.length ?? 0)),
      );
    case "cum_log_probs": {
      const sums = rows.flatMap((row) => Array.from({ length: numBeams }, (_, i) => row.beams[i]?.cumLogProb ?? 0));
      return floats(name, [...batch, numBeams], Float32Array.from(sums));
    }
    case "output_log_probs": {
      // Covers output tokens only, so it can be shorter than `output_ids`.
      const parts = rows.flatMap((row) => beamParts(row, numBeams, (beam) => beam.logProbs));
      const { values, width } = joinRows(parts, Float32Array, 0);
      return floats(name, [...batch, numBeams, width], values);
    }
    case "generation_logits": {
      const vocab = vocabOf(rows);
      if (vocab === 0) return undefined;
      const parts = rows.flatMap((row) => beamParts(row, numBeams, (beam) => beam.logits));
      const { values, width } = joinRows(parts, Float32Array, 0);
      return shortFloats(name, dataType, [...batch, numBeams, width / vocab, vocab], values);
    }
    default:
      return undefined;
  }
}

/** Log-probabilities of alternatives and of the prompt, and the logits of the prompt. */
function ofExtras(
  name: string,
  dataType: ConfigDataType,
  batch: readonly number[],
  rows: readonly RowOutput[],
): Tensor | undefined {
  const count = Math.max(...rows.map((row) => row.topLogProbs));
  const part = <T>(pick: (extras: Readonly<GeneratedExtras>) => T): (T | undefined)[] =>
    rows.map(({ extras }) => (extras === undefined ? undefined : pick(extras)));
  const topShape = (width: number): number[] => [...batch, width / count, count];
  const topIds = (parts: (Int32Array | undefined)[]): Tensor | undefined => {
    if (count === 0) return undefined;
    const { values, width } = joinRows(parts, Int32Array, PADDING_ID);
    return { name, datatype: "INT32", shape: topShape(width), data: bytesOf(values) };
  };
  const topValues = (parts: (Float32Array | undefined)[]): Tensor | undefined => {
    if (count === 0) return undefined;
    const { values, width } = joinRows(parts, Float32Array, 0);
    return floats(name, topShape(width), values);
  };
  switch (name) {
    case "context_logits": {
      const { values, width } = joinRows(
        part((extras) => extras.contextLogits),
        Float32Array,
        0,
      );
      const length = Math.max(...rows.map((row) => row.numContextRows));
      return width === 0 ? undefined : shortFloats(name, dataType, [...batch, length, width / length], values);
    }
    case "prompt_log_probs": {
      const { values, width } = joinRows(
        part((extras) => extras.promptLogProbs),
        Float32Array,
        0,
      );
      return width === 0 ? undefined : floats(name, [...batch, width], values);
    }
    case "top_log_prob_ids":
      return topIds(part((extras) => extras.topIds));
    case "top_log_probs":
      return topValues(part((extras) => extras.topLogProbs));
    case "prompt_top_log_prob_ids":
      return topIds(part((extras) => extras.promptTopIds));
    case "prompt_top_log_probs":
      return topValues(part((extras) => extras.promptTopLogProbs));
    default:
      return undefined;
  }
}

function ofUsage(name: string, batch: readonly number[], rows: readonly RowOutput[]): Tensor | undefined {
  const perRow = (read: (row: RowOutput) => number): Tensor => ints(name, [...batch, 1], rows.map(read));
  switch (name) {
    case "batch_index":
      return perRow((row) => row.batchIndex);
    case "sequence_index":
      return perRow((row) => row.sequenceIndex);
    case "num_input_tokens":
      return perRow((row) => row.numInputTokens);
    case "num_output_tokens":
      return perRow((row) => row.numOutputTokens);
    case "kv_cache_alloc_new_blocks":
      return perRow((row) => row.cacheUsage?.newBlocks ?? 0);
    case "kv_cache_reused_blocks":
      return perRow((row) => row.cacheUsage?.reusedBlocks ?? 0);
    case "kv_cache_alloc_total_blocks":
      return perRow(({ cacheUsage }) => (cacheUsage?.newBlocks ?? 0) + (cacheUsage?.reusedBlocks ?? 0));
    case "total_draft_tokens":
      return perRow((row) => row.usage?.draftTokens ?? 0);
    case "total_accepted_draft_tokens":
      return perRow((row) => row.usage?.acceptedDraftTokens ?? 0);
    case "acceptance_rate":
      return floats(
        name,
        [...batch, 1],
        Float32Array.from(rows, ({ usage }) => acceptanceRate(usage)),
      );
    case "arrival_time_ns":
      return times(name, batch, rows, (usage) => usage.arrivalNs);
    case "first_scheduled_time_ns":
      return times(name, batch, rows, (usage) => usage.firstScheduledNs);
    case "first_token_time_ns":
      return times(name, batch, rows, (usage) => usage.firstTokenNs);
    case "last_token_time_ns":
      return times(name, batch, rows, (usage) => usage.lastTokenNs);
    default:
      return undefined;
  }
}

/** 0 when nothing was drafted. */
function acceptanceRate(usage: Usage | undefined): number {
  return usage === undefined || usage.draftTokens === 0 ? 0 : usage.acceptedDraftTokens / usage.draftTokens;
}

function beamParts<T>(row: RowOutput, numBeams: number, pick: (beam: BeamOutput) => T): (T | undefined)[] {
  return Array.from({ length: numBeams }, (_, i) => {
    const beam = row.beams[i];
    return beam === undefined ? undefined : pick(beam);
  });
}

/** Rows of different lengths one under the other, filled up on the right. */
function joinRows<T extends Int32Array | Float32Array>(
  parts: readonly (ArrayLike<number> | undefined)[],
  Values: new (length: number) => T,
  padding: number,
): { readonly values: T; readonly width: number } {
  const width = Math.max(...parts.map((part) => part?.length ?? 0));
  const values = new Values(parts.length * width);
  values.fill(padding);
  for (const [i, part] of parts.entries()) if (part !== undefined) values.set(part, i * width);
  return { values, width };
}

/** Vocabulary size of the rows that carry logits of new tokens; 0 when none does. */
function vocabOf(rows: readonly RowOutput[]): number {
  for (const { beams } of rows) {
    for (const { logits, numNewTokens } of beams) if (logits.length > 0) return logits.length / numNewTokens;
  }
  return 0;
}

function shortFloats(name: string, dataType: ConfigDataType, shape: readonly number[], values: Float32Array): Tensor {
  const encode = dataType === "TYPE_FP16" ? numberToFp16 : dataType === "TYPE_BF16" ? numberToBf16 : undefined;
  if (encode === undefined) return floats(name, shape, values);
  const bits = new Uint16Array(values.length);
  for (let i = 0; i < values.length; i++) bits[i] = encode(values[i] ?? 0);
  const data = new Uint8Array(bits.buffer);
  return { name, datatype: dataType === "TYPE_FP16" ? "FP16" : "BF16", shape, data };
}

function ints(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  return { name, datatype: "INT32", shape, data: bytesOf(Int32Array.from(values)) };
}

function floats(name: string, shape: readonly number[], values: Float32Array): Tensor {
  return { name, datatype: "FP32", shape, data: bytesOf(values) };
}

function times(
  name: string,
  batch: readonly number[],
  rows: readonly RowOutput[],
  timeOf: (usage: Usage) => number,
): Tensor {
  const values = BigInt64Array.from(rows, ({ usage }) =>
    usage === undefined ? 0n : BigInt(Math.round(timeOf(usage))),
  );
  return { name, datatype: "INT64", shape: [...batch, 1], data: bytesOf(values) };
}

function zeros(name: string, dataType: ConfigDataType, shape: readonly number[]): Tensor {
  const datatype = (dataType === "TYPE_STRING" ? "BYTES" : dataType.slice("TYPE_".length)) as Datatype;
  const count = shape.reduce((product, dim) => product * dim, 1);
  // An empty string is four zero bytes: its length.
  const size = datatype === "BYTES" ? 4 : elementSize(datatype as FixedDatatype);
  return { name, datatype, shape, data: new Uint8Array(count * size) };
}

function bytesOf(values: Int32Array | Float32Array | BigInt64Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
