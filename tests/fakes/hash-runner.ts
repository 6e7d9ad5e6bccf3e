/**
 * A step runner whose "model" is a hash. Its cache holds token ids by slot, and its logits depend on every cached token
 * of a sequence, read through the block table: a lost, shared or misplaced block changes the output. It keeps the
 * contract strictly, so a step that breaks it fails.
 */
import type { StepInput, StepRunner, StepSequence } from "../../server/src/engine/step-runner.ts";

export interface HashRunnerOptions {
  readonly vocabSize?: number;
  readonly hiddenSize?: number;
  readonly blockSize?: number;
  readonly numBlocks?: number;
  readonly numHostBlocks?: number;
  /** How many tokens the hash sees. */
  readonly window?: number | undefined;
  readonly maxPositions?: number;
  readonly hasAxes?: boolean;
  /** Another "model": other logits for the same tokens. */
  readonly isOther?: boolean;
  readonly stepMs?: number;
  /** Called with each step before it runs; a throw fails the step. */
  readonly onStep?: (input: StepInput, step: number) => void;
}

export class HashRunner implements StepRunner {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly numHostBlocks: number;
  readonly window: number | undefined;
  readonly maxPositions: number;
  readonly hasAxes: boolean;
  /** Tokens, sequences and logit rows of every step so far. */
  readonly steps: { readonly numTokens: number; readonly numSequences: number; readonly numRows: number }[] = [];
  isClosed = false;
  readonly #options: HashRunnerOptions;
  readonly #cache: Int32Array;
  readonly #tokenAt: Int32Array;

  constructor(options: HashRunnerOptions = {}) {
    this.vocabSize = options.vocabSize ?? 64;
    this.hiddenSize = options.hiddenSize ?? 4;
    this.blockSize = options.blockSize ?? 4;
    this.numBlocks = options.numBlocks ?? 64;
    this.numHostBlocks = options.numHostBlocks ?? 0;
    this.window = options.window;
    this.maxPositions = options.maxPositions ?? 256;
    this.hasAxes = options.hasAxes ?? false;
    this.#options = options;
    const numSlots = (this.numBlocks + this.numHostBlocks) * this.blockSize;
    this.#cache = new Int32Array(numSlots).fill(-1);
    this.#tokenAt = new Int32Array(numSlots).fill(-1);
  }

  async run(input: StepInput): Promise<Float32Array> {
    this.#options.onStep?.(input, this.steps.length);
    this.#check(input);
    this.#copy(input.blockCopies ?? new Int32Array(0));
    this.steps.push({
      numTokens: input.tokenIds.length,
      numSequences: input.sequences.length,
      numRows: input.logitRows.length,
    });
    this.#store(input);
    const logits = new Float32Array(input.logitRows.length * this.vocabSize);
    input.logitRows.forEach((row, i) => {
      const sequence = input.sequences.find((s) => row >= s.queryStart && row < s.queryStart + s.queryLength);
      if (sequence === undefined) throw new Error("a logit row belongs to no sequence");
      const hash = this.#hashContext(sequence, (input.positions[row] ?? 0) + 1);
      writeLogits(hash, logits.subarray(i * this.vocabSize, (i + 1) * this.vocabSize));
    });
    await new Promise<void>((resolve) => {
      if (this.#options.stepMs === undefined) setImmediate(resolve);
      else setTimeout(resolve, this.#options.stepMs);
    });
    return logits;
  }

  async close(): Promise<void> {
    this.isClosed = true;
  }

  #check(input: StepInput): void {
    if (this.isClosed) throw new Error("run() after close()");
    const written = new Set(input.slots);
    if (written.size !== input.slots.length) throw new Error("a slot is written twice in one step");
    let next = 0;
    for (const sequence of input.sequences) {
      if (sequence.queryStart !== next || sequence.queryLength < 1) throw new Error("sequences must cover the tokens");
      next += sequence.queryLength;
      this.#checkSequence(input, sequence);
    }
    if (next !== input.tokenIds.length) throw new Error("tokens without a sequence");
  }

  #checkSequence(input: StepInput, sequence: StepSequence): void {
    const { queryStart, queryLength, contextLength, blockTable } = sequence;
    for (let i = queryStart; i < queryStart + queryLength; i++) {
      const position = contextLength - queryLength + i - queryStart;
      const block = blockTable[Math.floor(position / this.blockSize)] ?? -1;
      if (input.positions[i] !== position) throw new Error(`token ${i}: wrong position`);
      if (input.slots[i] !== block * this.blockSize + (position % this.blockSize)) throw new Error(`token ${i}: slot`);
      if (position >= this.maxPositions) throw new Error("position beyond the model");
    }
  }

  #copy(pairs: Int32Array): void {
    for (let i = 0; i < pairs.length; i += 2) {
      const [from = 0, to = 0] = [pairs[i], pairs[i + 1]].map((block) => (block ?? 0) * this.blockSize);
      this.#cache.copyWithin(to, from, from + this.blockSize);
      this.#tokenAt.copyWithin(to, from, from + this.blockSize);
    }
  }

  #store(input: StepInput): void {
    input.slots.forEach((slot, i) => {
      this.#cache[slot] = input.tokenIds[i] ?? -1;
      this.#tokenAt[slot] = input.positions[i] ?? -1;
    });
    const { embeddings } = input;
    embeddings?.rows.forEach((row, i) => {
      const slot = input.slots[row] ?? 0;
      this.#cache[slot] = 1000 + Math.round(1000 * (embeddings.values[i * this.hiddenSize] ?? 0));
    });
  }

  #hashContext(sequence: StepSequence, length: number): number {
    let hash = this.#options.isOther === true ? OTHER_SEED : SEED;
    for (let position = Math.max(0, length - (this.window ?? length)); position < length; position++) {
      const block = sequence.blockTable[Math.floor(position / this.blockSize)] ?? 0;
      if (block < 0 || block >= this.numBlocks) throw new Error(`position ${position} lies in block ${block}`);
      const slot = block * this.blockSize + (position % this.blockSize);
      if (this.#tokenAt[slot] !== position) throw new Error(`slot ${slot} does not hold position ${position}`);
      hash = hashToken(hash, this.#cache[slot] ?? 0);
    }
    return hash;
  }
}

const SEED = 0x811c9dc5;
const OTHER_SEED = 0x1234567;

/** The row that the runner gives after these tokens, without any cache. */
export function hashLogits(tokens: Int32Array, row: Float32Array, window = tokens.length): void {
  let hash = SEED;
  for (let i = Math.max(0, tokens.length - window); i < tokens.length; i++) hash = hashToken(hash, tokens[i] ?? 0);
  writeLogits(hash, row);
}

function hashToken(hash: number, token: number): number {
  const mixed = Math.imul(hash ^ token, 0x01000193);
  return mixed ^ (mixed >>> 15);
}

function writeLogits(hash: number, row: Float32Array): void {
  for (let token = 0; token < row.length; token++) {
    let x = Math.imul(hash ^ Math.imul(token + 1, 0x9e3779b1), 0x85ebca6b);
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
    row[token] = ((x ^ (x >>> 16)) >>> 0) / 2 ** 29; // 0 to 8
  }
}
