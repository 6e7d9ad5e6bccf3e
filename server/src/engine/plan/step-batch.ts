/**
 * Lays a plan out as the arrays that a step runner takes. The buffers live as long as the engine and grow when a step
 * is larger than any before. It decides nothing.
 */
import type { Sequence } from "../request/sequence.ts";
import type { StepEmbeddings, StepEncoderInput, StepInput, StepSequence } from "../step-runner.ts";
import type { StepPlan } from "./step-plan.ts";

/** Time, row and column. */
const NUM_AXES = 3;

/** The part of a plan that decides what a step computes. */
export type StepShares = Pick<StepPlan, "sequences" | "queryLengths" | "blockCopies" | "stateCopies">;

export class StepBatch {
  readonly #blockSize: number;
  readonly #vocabSize: number;
  readonly #hiddenSize: number;
  #tokenIds = new Int32Array(0);
  #positions = new Int32Array(0);
  #slots = new Int32Array(0);
  #logitRows = new Int32Array(0);
  #carried = new Int32Array(0);
  #axes = new Int32Array(0);
  #hasCarried = false;
  /** Rows of logits wanted for the prompt of each sequence in the last plan. They come before its last row. */
  readonly promptRows: number[] = [];

  constructor(shape: { readonly blockSize: number; readonly vocabSize: number; readonly hiddenSize: number }) {
    this.#blockSize = shape.blockSize;
    this.#vocabSize = shape.vocabSize;
    this.#hiddenSize = shape.hiddenSize;
  }

  /**
   * Row indices in plan order: first the requested prompt rows. A sequence that is fully computed after this step adds
   * its last row (unless it is a prompt row already) and the rows of its draft tokens.
   */
  fill(plan: StepShares): StepInput {
    const numTokens = plan.queryLengths.reduce((sum, length) => sum + length, 0);
    if (numTokens > this.#tokenIds.length) this.#grow(numTokens);
    const sequences: StepSequence[] = [];
    let at = 0;
    let numRows = 0;
    this.promptRows.length = 0;
    this.#hasCarried = false;
    for (let i = 0; i < plan.sequences.length; i++) {
      const sequence = plan.sequences[i];
      const length = plan.queryLengths[i] ?? 0;
      if (sequence === undefined) break;
      const contextLength = sequence.numComputed + length;
      sequences.push(shareOf(sequence, at, length));
      this.#writeTokens(sequence, length, at);
      const promptRows = this.#writePromptRows(sequence, length, at, numRows);
      this.promptRows.push(promptRows);
      numRows += promptRows;
      at += length;
      const isLastWanted = promptRows === 0 || sequence.numTokens !== sequence.promptLength;
      const numTokens = sequence.numTokens + sequence.numPending;
      for (let end = numTokens + (isLastWanted ? 0 : 1); end <= contextLength; end++) {
        this.#logitRows[numRows] = at - 1 - (contextLength - end);
        numRows += 1;
      }
    }
    const input: StepInput = {
      tokenIds: this.#tokenIds.subarray(0, at),
      positions: this.#positions.subarray(0, at),
      slots: this.#slots.subarray(0, at),
      sequences,
      logitRows: this.#logitRows.subarray(0, numRows),
      ...(this.#hasCarried ? { carried: this.#carried.subarray(0, at) } : {}),
    };
    const embeddings = this.#embeddings(plan);
    const axes = this.#writeAxes(plan, at);
    const encoderInputs = takeEncoderInputs(plan);
    return {
      ...input,
      ...copiesOf(plan),
      ...(embeddings === undefined ? {} : { embeddings }),
      ...(axes === undefined ? {} : { axes }),
      ...(encoderInputs.length === 0 ? {} : { encoderInputs }),
    };
  }

  /** Wants the rows of the prompt tokens among these; gives their number. */
  #writePromptRows(sequence: Sequence, length: number, at: number, numRows: number): number {
    if (!sequence.wantsPromptRows) return 0;
    const first = Math.max(sequence.numComputed, sequence.numPromptRows);
    const end = Math.min(sequence.numComputed + length, sequence.promptLength);
    for (let position = first; position < end; position++) {
      this.#logitRows[numRows + position - first] = at + position - sequence.numComputed;
    }
    return Math.max(0, end - first);
  }

  #writeTokens(sequence: Sequence, length: number, at: number): void {
    for (let j = 0; j < length; j++) {
      const position = sequence.numComputed + j;
      const isPending = sequence.numPending > 0 && position >= sequence.numTokens;
      const token = isPending ? 0 : (sequence.tokens[position] ?? 0);
      this.#carried[at + j] = isPending ? sequence.pendingRow : -1;
      this.#hasCarried ||= isPending;
      const block = sequence.blockTable[Math.floor(position / this.#blockSize)] ?? 0;
      this.#tokenIds[at + j] = token < this.#vocabSize ? token : 0;
      this.#positions[at + j] = position;
      this.#slots[at + j] = block * this.#blockSize + (position % this.#blockSize);
    }
  }

  /** Undefined when every token's position equals its index. */
  #writeAxes(plan: StepShares, numTokens: number): Int32Array | undefined {
    if (!plan.sequences.some(({ request }) => request.promptPositions !== undefined)) return undefined;
    if (this.#axes.length < NUM_AXES * numTokens) this.#axes = new Int32Array(NUM_AXES * this.#tokenIds.length);
    let at = 0;
    for (let i = 0; i < plan.sequences.length; i++) {
      const sequence = plan.sequences[i];
      const length = plan.queryLengths[i] ?? 0;
      if (sequence === undefined) break;
      for (let axis = 0; axis < NUM_AXES; axis++) writeAxis(sequence, axis, this.#axes, axis * numTokens + at, length);
      at += length;
    }
    return this.#axes.subarray(0, NUM_AXES * numTokens);
  }

  /** Rows of prompt tables in this step; rare, so allocated when needed. */
  #embeddings(plan: StepShares): StepEmbeddings | undefined {
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
    this.#carried = new Int32Array(capacity);
  }
}

function shareOf({ numComputed, blockTable, adapter, state }: Sequence, at: number, length: number): StepSequence {
  const contextLength = numComputed + length;
  const slot = state < 0 ? undefined : state;
  return { queryStart: at, queryLength: length, contextLength, blockTable, adapter: adapter?.id, state: slot };
}

/** Inputs of sequences whose slot is new; they have run with this step. */
function takeEncoderInputs({ sequences }: StepShares): StepEncoderInput[] {
  const inputs: StepEncoderInput[] = [];
  for (const sequence of sequences) {
    const { needsEncoding, state, request } = sequence;
    if (!needsEncoding || request.encoderInput === undefined) continue;
    inputs.push({ state, input: request.encoderInput });
    sequence.needsEncoding = false;
  }
  return inputs;
}

function copiesOf({ blockCopies, stateCopies }: StepShares): Pick<StepInput, "blockCopies" | "stateCopies"> {
  return {
    ...(blockCopies.length === 0 ? {} : { blockCopies: Int32Array.from(blockCopies) }),
    ...(stateCopies.length === 0 ? {} : { stateCopies: Int32Array.from(stateCopies) }),
  };
}

/** Tokens that a sequence computes next. */
function writeAxis(sequence: Sequence, axis: number, out: Int32Array, at: number, length: number): void {
  const { numComputed, promptLength, positionShift, request } = sequence;
  for (let j = 0; j < length; j++) {
    const place = numComputed + j;
    const isPrompt = request.promptPositions !== undefined && place < promptLength;
    out[at + j] = isPrompt ? (request.promptPositions?.[axis * promptLength + place] ?? 0) : place + positionShift;
  }
}
