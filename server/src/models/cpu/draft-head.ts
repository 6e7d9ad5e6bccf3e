/**
 * Records the pass of a draft head: from tokens and hidden states to logits and the hidden states of the next pass. Source: as
 * config/draft-head.ts.
 */
import { recordConcat } from "../../../kernels/concat/concat.ggml.ts";
import { recordGatherRows } from "../../../kernels/gather-rows/gather-rows.ggml.ts";
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { NormedRows, NormStep } from "../decoder/decoder-ops.ts";
import { walkDecoder } from "../decoder/walk-decoder.ts";
import type { Norm } from "../weights/weight-plan.ts";
import { numDecoderTensors } from "./decoder.ts";
import type { DecoderBatch, DecoderModel, DecoderSequence } from "./decoder-model.ts";
import { CpuDecoderOps } from "./decoder-ops.ts";

export interface CpuDraftHead {
  /** Its one layer, with the embedding and the output that it uses. */
  readonly model: DecoderModel;
  readonly kind: "eagle3" | "mtp";
  readonly embeddingNorm: Norm<CpuTensor>;
  readonly hiddenNorm: Norm<CpuTensor>;
  readonly join: CpuTensor;
}

export interface HeadRows {
  /** [numTokens, width] */
  readonly values: Float32Array;
  /** Rows of the model; else hidden states that the head gave. */
  readonly areObserved: boolean;
}

const TENSORS_OF_HEAD = 32;

export function numHeadTensors({ model }: CpuDraftHead, sequences: readonly DecoderSequence[]): number {
  return TENSORS_OF_HEAD + numDecoderTensors(model.config, sequences);
}

/** Logits [logitRows, draftVocab] and hidden states [logitRows, hidden] of rows that exist. */
export function recordDraftHead(
  graph: CpuGraph,
  head: CpuDraftHead,
  batch: DecoderBatch,
  rows: HeadRows,
): { readonly logits: CpuTensor; readonly hidden: CpuTensor } {
  const ops = new HeadOps(graph, head, batch, rows);
  const normed = walkDecoder(ops, head.model);
  const { hidden } = ops;
  if (normed === undefined || hidden === undefined) throw new Error("a pass of a draft head without rows");
  const logits = ops.logits(normed);
  graph.output(logits);
  graph.output(hidden);
  return { logits, hidden };
}

/** The layer reads rows that a head joins, in place of embeddings. */
class HeadOps extends CpuDecoderOps {
  /** The residual stream behind the layer. */
  hidden: CpuTensor | undefined;
  readonly #graph: CpuGraph;
  readonly #head: CpuDraftHead;
  readonly #batch: DecoderBatch;
  readonly #rows: HeadRows;
  /** Normalized already: read by the first operation in place of the residual stream. */
  #joined: CpuTensor | undefined;

  constructor(graph: CpuGraph, head: CpuDraftHead, batch: DecoderBatch, rows: HeadRows) {
    super(graph, head.model, batch);
    this.#graph = graph;
    this.#head = head;
    this.#batch = batch;
    this.#rows = rows;
  }

  override embed(): CpuTensor {
    const graph = this.#graph;
    const { kind, join, model, embeddingNorm, hiddenNorm } = this.#head;
    const { tokenIds } = this.#batch;
    const { values, areObserved } = this.#rows;
    const numRows = tokenIds.length;
    const ids = graph.input("i32", [numRows], tokenIds);
    const embedded = recordGatherRows(graph, { table: model.weights.embedding, ids });
    const given = graph.input("f32", [numRows, values.length / numRows], values);
    const isEagle = kind === "eagle3";
    const hidden = isEagle && areObserved ? recordLinear(graph, { x: given, weight: join, bias: undefined }) : given;
    const joined = recordConcat(graph, {
      a: this.normalized(embeddingNorm, embedded),
      b: this.normalized(hiddenNorm, hidden),
    });
    if (!isEagle) return recordLinear(graph, { x: joined, weight: join, bias: undefined });
    this.#joined = joined;
    return hidden;
  }

  override addNorm(residual: CpuTensor, step: NormStep<CpuTensor, CpuTensor>): NormedRows<CpuTensor> {
    const joined = this.#joined;
    if (joined !== undefined) {
      this.#joined = undefined;
      return { residual, normed: joined };
    }
    const rows = super.addNorm(residual, step);
    this.hidden = rows.residual;
    return rows;
  }
}
