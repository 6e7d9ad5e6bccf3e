/**
 * Lays a plan out as the arrays that a step runner takes. The buffers live as long as the engine and grow when a step
 * is larger than any before. It decides nothing.
 */
import type { Sequence } from "./sequence.ts";
import type { StepPlan } from "./step-planner.ts";
import type { StepEmbeddings, StepInput, StepSequence } from "./step-runner.ts";

export class StepBatch {
  readonly #blockSize: number;
  readonly #vocabSize: number;
  readonly #hiddenSize: number;
  #tokenIds = new Int32Array(0);
  #positions = new Int32Array(0);
  #slots = new Int32Array(0);
  #logitRows = new Int32Array(0);

  constructor(shape: { readonly blockSize: number; readonly vocabSize: number; readonly hiddenSize: number }) {
    this.#blockSize = shape.blockSize;
    this.#vocabSize = shape.vocabSize;
    this.#hiddenSize = shape.hiddenSize;
  }

  /** One logit row per sequence whose tokens are all computed after this step, in the order of the plan. */
  fill(plan: StepPlan): StepInput {
    if (plan.numTokens > this.#tokenIds.length) this.#grow(plan.numTokens);
    const sequences: StepSequence[] = [];
    let at = 0;
    let numRows = 0;
    for (let i = 0; i < plan.sequences.length; i++) {
      const sequence = plan.sequences[i];
      const length = plan.queryLengths[i] ?? 0;
      if (sequence === undefined) break;
      const contextLength = sequence.numComputed + length;
      sequences.push({ queryStart: at, queryLength: length, contextLength, blockTable: sequence.blockTable });
      this.#writeTokens(sequence, length, at);
      at += length;
      if (contextLength === sequence.numTokens) {
        this.#logitRows[numRows] = at - 1;
        numRows += 1;
      }
    }
    const input: StepInput = {
      tokenIds: this.#tokenIds.subarray(0, at),
      positions: this.#positions.subarray(0, at),
      slots: this.#slots.subarray(0, at),
      sequences,
      logitRows: this.#logitRows.subarray(0, numRows),
    };
    const embeddings = this.#embeddings(plan);
    return embeddings === undefined ? input : { ...input, embeddings };
  }

  #writeTokens(sequence: Sequence, length: number, at: number): void {
    for (let j = 0; j < length; j++) {
      const position = sequence.numComputed + j;
      const token = sequence.tokens[position] ?? 0;
      const block = sequence.blockTable[Math.floor(position / this.#blockSize)] ?? 0;
      this.#tokenIds[at + j] = token < this.#vocabSize ? token : 0;
      this.#positions[at + j] = position;
      this.#slots[at + j] = block * this.#blockSize + (position % this.#blockSize);
    }
  }

  /** Rows of prompt tables in this step; rare, so allocated when needed. */
  #embeddings(plan: StepPlan): StepEmbeddings | undefined {
    const rows: number[] = [];
    const parts: Float32Array[] = [];
    let at = 0;
    for (let i = 0; i < plan.sequences.length; i++) {
      const sequence = plan.sequences[i];
      const length = plan.queryLengths[i] ?? 0;
      if (sequence !== undefined) this.#collectRows(sequence, length, at, rows, parts);
      at += length;
    }
    if (rows.length === 0) return undefined;
    const values = new Float32Array(rows.length * this.#hiddenSize);
    for (let i = 0; i < parts.length; i++) values.set(parts[i] ?? [], i * this.#hiddenSize);
    return { rows: Int32Array.from(rows), values };
  }

  #collectRows(sequence: Sequence, length: number, at: number, rows: number[], parts: Float32Array[]): void {
    const table = sequence.request.promptTable;
    if (table === undefined) return;
    for (let j = 0; j < length; j++) {
      const row = (sequence.tokens[sequence.numComputed + j] ?? 0) - this.#vocabSize;
      if (row < 0) continue;
      rows.push(at + j);
      parts.push(table.values.subarray(row * this.#hiddenSize, (row + 1) * this.#hiddenSize));
    }
  }

  #grow(numTokens: number): void {
    const capacity = Math.max(256, 2 ** Math.ceil(Math.log2(numTokens)));
    this.#tokenIds = new Int32Array(capacity);
    this.#positions = new Int32Array(capacity);
    this.#slots = new Int32Array(capacity);
    this.#logitRows = new Int32Array(capacity);
  }
}
