/**
 * Turns generated tokens into the output tensors of an LLM model. Every wanted output that the configuration declares is
 * given: those that were not asked for by a flag are zeros. Pure.
 */
import { type Datatype, elementSize, type FixedDatatype } from "@nereid/wire";
import type { ConfigDataType, ModelConfig } from "../../core/model-config.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Usage } from "../../engine/generate.ts";

/** What one row has to tell in one response. */
export interface RowOutput {
  readonly tokenIds: Int32Array;
  readonly logProbs: Float32Array;
  readonly cumLogProb: number;
  readonly batchIndex: number;
  /** On the last response of the row, when performance figures were asked for. */
  readonly usage: Usage | undefined;
}

const PADDING_ID = -1;

/** The tensors of one response that carries these rows. */
export function outputTensors(config: ModelConfig, wanted: readonly string[], rows: readonly RowOutput[]): Tensor[] {
  const batch = config.max_batch_size > 0 ? [rows.length] : [];
  const tensors: Tensor[] = [];
  for (const { name, data_type: dataType, dims } of config.output) {
    if (!wanted.includes(name)) continue;
    tensors.push(known(name, batch, rows) ?? zeros(name, dataType, [...batch, ...dims.map((dim) => Math.max(1, dim))]));
  }
  return tensors;
}

function known(name: string, batch: readonly number[], rows: readonly RowOutput[]): Tensor | undefined {
  switch (name) {
    case "output_ids":
      return outputIds(batch, rows);
    case "sequence_length":
      return ints(
        name,
        [...batch, 1],
        rows.map((row) => row.tokenIds.length),
      );
    case "cum_log_probs":
      return floats(
        name,
        [...batch, 1],
        Float32Array.from(rows, (row) => row.cumLogProb),
      );
    case "output_log_probs":
      return outputLogProbs(batch, rows);
    case "batch_index":
      return ints(
        name,
        [...batch, 1],
        rows.map((row) => row.batchIndex),
      );
    case "kv_cache_alloc_new_blocks":
      return ints(
        name,
        [...batch, 1],
        rows.map((row) => row.usage?.newBlocks ?? 0),
      );
    case "kv_cache_reused_blocks":
      return ints(
        name,
        [...batch, 1],
        rows.map((row) => row.usage?.reusedBlocks ?? 0),
      );
    case "kv_cache_alloc_total_blocks":
      return ints(
        name,
        [...batch, 1],
        rows.map(({ usage }) => (usage?.newBlocks ?? 0) + (usage?.reusedBlocks ?? 0)),
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

function outputIds(batch: readonly number[], rows: readonly RowOutput[]): Tensor {
  const width = Math.max(...rows.map((row) => row.tokenIds.length));
  const values = new Int32Array(rows.length * width).fill(PADDING_ID);
  for (const [i, row] of rows.entries()) values.set(row.tokenIds, i * width);
  return { name: "output_ids", datatype: "INT32", shape: [...batch, 1, width], data: bytesOf(values) };
}

/** Of the output tokens only, so possibly shorter than `output_ids`. */
function outputLogProbs(batch: readonly number[], rows: readonly RowOutput[]): Tensor {
  const width = Math.max(...rows.map((row) => row.logProbs.length));
  const values = new Float32Array(rows.length * width);
  for (const [i, row] of rows.entries()) values.set(row.logProbs, i * width);
  return floats("output_log_probs", [...batch, 1, width], values);
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
