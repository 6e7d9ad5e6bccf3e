/** Attention of a layer that keeps contents and positions apart, as a list of ops. Source: He et al. 2021 (DeBERTa), section 3.1. */
import type { RecordedSpan } from "../../../kernels/attention/attention.ggml.ts";
import { recordBiasedAttention } from "../../../kernels/biased-attention/biased-attention.ggml.ts";
import { recordDisentangledBias } from "../../../kernels/disentangled-bias/disentangled-bias.ggml.ts";
import { tableRow } from "../../../kernels/disentangled-bias/position-buckets.ts";
import { recordGatherRows } from "../../../kernels/gather-rows/gather-rows.ggml.ts";
import { recordLayerNorm } from "../../../kernels/layer-norm/layer-norm.ggml.ts";
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import { expectAt } from "../../core/expect-at.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderModel } from "./decoder-model.ts";

/** Rows of the table that the pairs of a pass name, and for each text which. */
interface PassRows {
  readonly table: CpuTensor; // [numRows, hidden]
  readonly pairs: readonly { readonly byQuery: CpuTensor; readonly byKey: CpuTensor }[];
}

/** All layers of a pass share its rows. */
export class DisentangledAttention {
  readonly #graph: CpuGraph;
  readonly #model: DecoderModel;
  #rows: PassRows | undefined;

  constructor(graph: CpuGraph, model: DecoderModel) {
    this.#graph = graph;
    this.#model = model;
  }

  /** [numTokens, numHeads * headDim] of rows [queries | keys | values], whose keys and values are in the cache. */
  record(index: number, qkv: CpuTensor, spans: readonly RecordedSpan[]): CpuTensor {
    const { config, weights, caches } = this.#model;
    const { numHeads, numKvHeads, headDim, attentionScale: scale } = config;
    const cache = expectAt(caches, index);
    if (cache === undefined) throw new Error(`layer ${index} has no cache`);
    this.#rows ??= this.#recordRows(spans);
    const { table, pairs } = this.#rows;
    // Positions pass the projections of contents.
    const positions = recordLinear(this.#graph, { x: table, ...expectAt(weights.layers, index).qkv });
    const biased = spans.map((recorded, i) => {
      const { queryStart: first, queryLength: count } = recorded.span;
      const args = { qkv, positions, numHeads, headDim, first, count, ...expectAt(pairs, i), scale };
      return { ...recorded, bias: recordDisentangledBias(this.#graph, args) };
    });
    const [numTokens = 0, width = 0] = qkv.shape;
    const q: CpuTensor = { ...qkv, shape: [numTokens, width / headDim, headDim] };
    const read = { q, keyCache: cache.keys, valueCache: cache.values, spans: biased };
    return recordBiasedAttention(this.#graph, { ...read, numHeads, numKvHeads, scale });
  }

  /** The rows between those of the longest text's ends: short texts name few. */
  #recordRows(spans: readonly RecordedSpan[]): PassRows {
    const { config, weights } = this.#model;
    const { positionBuckets: buckets, norm } = config;
    if (buckets === undefined || weights.relativeTable === undefined)
      throw new Error("a model without a table of positions");
    const longest = Math.max(...spans.map(({ span }) => span.queryLength)) - 1;
    const first = tableRow(-longest, buckets);
    const numRows = tableRow(longest, buckets) - first + 1;
    const ids = this.#graph.input(
      "i32",
      [numRows],
      Int32Array.from({ length: numRows }, (_, i) => first + i),
    );
    const rows = recordGatherRows(this.#graph, { table: weights.relativeTable.table, ids });
    const own = weights.relativeTable.norm;
    const table = own === undefined ? rows : recordLayerNorm(this.#graph, { x: rows, ...own, epsilon: norm.epsilon });
    const byDistance = Int32Array.from({ length: 2 * longest + 1 }, (_, i) => tableRow(i - longest, buckets) - first);
    const pairs = spans.map(({ span: { queryLength: count } }) => {
      const name = (by: (i: number, j: number) => number): CpuTensor => {
        const named = new Int32Array(count * count);
        for (let i = 0; i < count; i++) {
          for (let j = 0; j < count; j++)
            named[i * count + j] = (byDistance[i - j + longest] ?? 0) + numRows * by(i, j);
        }
        return this.#graph.input("i32", [named.length], named);
      };
      return { byQuery: name((i) => i), byKey: name((_, j) => j) };
    });
    return { table, pairs };
  }
}
