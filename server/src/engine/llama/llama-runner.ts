/**
 * Runs steps on libllama: the tokens behind cache blocks become sequences of its memory. The engine decides requests,
 * blocks and tokens as for every other runner; libllama computes the logits.
 */
import { LlamaTokenBatch } from "../../device/llama/llama-batch.ts";
import { ABORTED, DECODED, type LlamaContext } from "../../device/llama/llama-context.ts";
import type { LlamaModel } from "../../device/llama/llama-model.ts";
import { checkStep } from "../plan/check-step.ts";
import type { StepInput, StepRunner, StepSequence } from "../step-runner.ts";
import { LlamaAdapters } from "./adapters.ts";
import { SequenceTable } from "./sequence-table.ts";
import { divideStep, type SequenceWork, type StepCall } from "./step-calls.ts";

export interface LlamaRunnerOptions {
  readonly blockSize: number;
  readonly numBlocks: number;
  /** Sequences of libllama's memory. */
  readonly numSequences: number;
  readonly maxBatchTokens: number;
  readonly maxOutputs: number;
  readonly maxPositions: number;
  readonly endIds: readonly number[];
  /** As the file names it: adapters must name the same one. */
  readonly architecture: string;
  /** False: memories can be copied and removed as a whole only. */
  readonly canCut: boolean;
}

export class LlamaRunner implements StepRunner {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly maxPositions: number;
  readonly eosTokenIds: readonly number[];
  readonly reusesPrefixes: boolean;
  readonly takesEmbeddings = false;
  readonly adapters: LlamaAdapters;
  readonly #model: LlamaModel;
  readonly #context: LlamaContext;
  readonly #table: SequenceTable;
  readonly #batch: LlamaTokenBatch;
  readonly #maxOutputs: number;
  /** Token in each slot of the cache blocks, and the sequence that last wrote each block. */
  readonly #slotTokens: Int32Array;
  readonly #blockOwners: Int16Array;
  #logits: Float32Array = new Float32Array(0);
  #running: Promise<unknown> | undefined;
  #closing: Promise<void> | undefined;

  /** Takes over model and context. */
  constructor(model: LlamaModel, context: LlamaContext, options: LlamaRunnerOptions) {
    const { blockSize, numBlocks, canCut } = options;
    this.#model = model;
    this.#context = context;
    this.vocabSize = model.facts.vocabSize;
    this.hiddenSize = model.facts.hiddenSize;
    this.blockSize = blockSize;
    this.numBlocks = numBlocks;
    this.maxPositions = options.maxPositions;
    this.eosTokenIds = options.endIds;
    this.reusesPrefixes = canCut;
    const memory = {
      remove: (sequence: number, from: number, to: number) => context.remove(sequence, from, to),
      copy: (from: number, to: number, end: number | undefined) => context.copy(from, to, end),
    };
    this.adapters = new LlamaAdapters(model, context, options.architecture);
    this.#table = new SequenceTable({ memory, numSequences: options.numSequences, canCut });
    this.#batch = new LlamaTokenBatch(options.maxBatchTokens);
    this.#maxOutputs = options.maxOutputs;
    this.#slotTokens = new Int32Array(numBlocks * blockSize);
    this.#blockOwners = new Int16Array(numBlocks).fill(-1);
  }

  async run(input: StepInput): Promise<Float32Array> {
    if (this.#closing !== undefined) throw new Error("the step runner is closed");
    if (this.#running !== undefined) throw new Error("a step is running: await it before the next");
    const step = this.#runStep(input);
    this.#running = step;
    try {
      return await step;
    } finally {
      this.#running = undefined;
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#closeAfter(this.#running);
    return this.#closing;
  }

  async #runStep(input: StepInput): Promise<Float32Array> {
    checkStep(input, this);
    if (input.embeddings !== undefined) throw new Error("step: embeddings: expected none by this runner");
    this.adapters.check(input.sequences);
    for (const id of this.adapters.sweep()) this.#table.forgetAdapter(id);
    this.#copyBlocks(input.blockCopies);
    for (const [i, slot] of input.slots.entries()) this.#slotTokens[slot] = input.tokenIds[i] ?? 0;
    const result = this.#logitsFor(input.logitRows.length);
    const { rows, repeated } = rowsOf(input);
    this.#table.begin();
    const works = input.sequences.map((sequence) => this.#workOf(sequence, rows));
    const limits = { maxTokens: this.#batch.capacity, maxRows: this.#maxOutputs };
    for (const call of divideStep(works, limits)) await this.#compute(call, result);
    for (const [from, to] of repeated)
      result.copyWithin(to * this.vocabSize, from * this.vocabSize, (from + 1) * this.vocabSize);
    return result;
  }

  #copyBlocks(pairs: Int32Array | undefined): void {
    if (pairs === undefined) return;
    for (let i = 0; i < pairs.length; i += 2) {
      const from = (pairs[i] ?? 0) * this.blockSize;
      this.#slotTokens.copyWithin((pairs[i + 1] ?? 0) * this.blockSize, from, from + this.blockSize);
    }
  }

  /** Finds the memory of a sequence; all its tokens that are not there must be computed, those before the step too. */
  #workOf(
    { queryStart, queryLength, contextLength, blockTable, adapter }: StepSequence,
    rows: Int32Array,
  ): SequenceWork {
    const tokens = this.#tokensOf(blockTable, contextLength);
    const before = contextLength - queryLength;
    const lastBlock = before === 0 ? -1 : (blockTable[Math.floor((before - 1) / this.blockSize)] ?? -1);
    const owner = this.#blockOwners[lastBlock] ?? -1;
    const { id, numKnown } = this.#table.place(tokens.subarray(0, before), adapter, owner < 0 ? undefined : owner);
    for (let at = Math.floor(before / this.blockSize); at * this.blockSize < contextLength; at++) {
      this.#blockOwners[blockTable[at] ?? 0] = id;
    }
    const wanted = new Int32Array(contextLength - numKnown).fill(-1);
    wanted.set(rows.subarray(queryStart, queryStart + queryLength), before - numKnown);
    return { id, adapter, first: numKnown, tokens: tokens.subarray(numKnown), rows: wanted };
  }

  #tokensOf(blockTable: Int32Array, length: number): Int32Array {
    const tokens = new Int32Array(length);
    for (let at = 0; at < length; at += this.blockSize) {
      const from = (blockTable[at / this.blockSize] ?? 0) * this.blockSize;
      tokens.set(this.#slotTokens.subarray(from, from + Math.min(this.blockSize, length - at)), at);
    }
    return tokens;
  }

  async #compute({ adapter, pieces }: StepCall, result: Float32Array): Promise<void> {
    const batch = this.#batch;
    this.adapters.use(adapter);
    const wanted: { readonly index: number; readonly row: number }[] = [];
    batch.clear();
    for (const { work, start, end } of pieces) {
      for (let i = start; i < end; i++) {
        const row = work.rows[i] ?? -1;
        const index = batch.add(work.tokens[i] ?? 0, work.first + i, work.id, row >= 0);
        if (row >= 0) wanted.push({ index, row });
      }
    }
    await this.#decode();
    for (const { index, row } of wanted) {
      this.#context.readLogits(index, result.subarray(row * this.vocabSize, (row + 1) * this.vocabSize));
    }
    for (const { work, start, end } of pieces) this.#table.append(work.id, work.tokens.subarray(start, end));
  }

  /** Memories that no block needs give way first; after that equal beginnings are shared. */
  async #decode(): Promise<void> {
    let hasShared = false;
    for (;;) {
      const status = await this.#context.decode(this.#batch);
      if (status === DECODED) return;
      if (status === ABORTED) throw new Error("the step runner was closed while it computed");
      if (this.#table.dropIdle()) continue;
      if (hasShared) throw new Error(`libllama has no room for ${this.#batch.length} tokens in its memory`);
      this.#table.share();
      hasShared = true;
    }
  }

  /** One array serves all steps of up to its size. */
  #logitsFor(numRows: number): Float32Array {
    const length = numRows * this.vocabSize;
    if (this.#logits.length < length) this.#logits = new Float32Array(length);
    return this.#logits.subarray(0, length);
  }

  /** The context ends the call in flight. */
  async #closeAfter(running: Promise<unknown> | undefined): Promise<void> {
    const closing = this.#context.close();
    await running?.catch(() => undefined);
    await closing;
    this.#model.close();
  }
}

/** Row of logits of each token, -1: none; and rows that repeat an earlier one. */
function rowsOf({ logitRows, tokenIds }: StepInput): {
  readonly rows: Int32Array;
  readonly repeated: readonly (readonly [from: number, to: number])[];
} {
  const rows = new Int32Array(tokenIds.length).fill(-1);
  const repeated: [number, number][] = [];
  for (const [row, token] of logitRows.entries()) {
    const first = rows[token] ?? -1;
    if (first < 0) rows[token] = row;
    else repeated.push([first, row]);
  }
  return { rows, repeated };
}
