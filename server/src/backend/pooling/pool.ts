/** From the states of a text's tokens to one vector of it, as sentence encoders are trained. Pure. */

export type PoolingMode = "mean" | "cls" | "max" | "last";

export const POOLING_MODES: readonly PoolingMode[] = ["mean", "cls", "max", "last"];

export interface TokenStates {
  /** [rows, length, width] */
  readonly values: Float32Array;
  readonly numRows: number;
  readonly length: number;
  readonly width: number;
  /** [rows, length]; 0 where there is padding. */
  readonly mask: Uint8Array;
}

/** [rows, width]. A text without any token becomes zeros. */
export function pool(states: TokenStates, mode: PoolingMode, isNormalized: boolean): Float32Array {
  const out = new Float32Array(states.numRows * states.width);
  for (let row = 0; row < states.numRows; row++) {
    const vector = out.subarray(row * states.width, (row + 1) * states.width);
    POOLERS[mode](states, row, vector);
    if (isNormalized) normalize(vector);
  }
  return out;
}

type Pooler = (states: TokenStates, row: number, out: Float32Array) => void;

const POOLERS: Readonly<Record<PoolingMode, Pooler>> = {
  mean(states, row, out) {
    const sums = new Float64Array(states.width);
    const count = eachToken(states, row, (first) => {
      for (let i = 0; i < sums.length; i++) sums[i] = (sums[i] ?? 0) + (states.values[first + i] ?? 0);
    });
    for (let i = 0; i < sums.length; i++) out[i] = (sums[i] ?? 0) / Math.max(1, count);
  },
  cls(states, row, out) {
    const first = row * states.length * states.width;
    out.set(states.values.subarray(first, first + states.width));
  },
  max(states, row, out) {
    let isFirst = true;
    eachToken(states, row, (first) => {
      for (let i = 0; i < out.length; i++) {
        const value = states.values[first + i] ?? 0;
        if (isFirst || value > (out[i] ?? 0)) out[i] = value;
      }
      isFirst = false;
    });
  },
  last(states, row, out) {
    eachToken(states, row, (first) => out.set(states.values.subarray(first, first + states.width)));
  },
};

/** Number of tokens. `visit` gets the index of each token's first number. */
function eachToken({ length, width, mask }: TokenStates, row: number, visit: (first: number) => void): number {
  let count = 0;
  for (let token = 0; token < length; token++) {
    if (mask[row * length + token] === 0) continue;
    visit((row * length + token) * width);
    count += 1;
  }
  return count;
}

function normalize(vector: Float32Array): void {
  let sum = 0;
  for (const value of vector) sum += value * value;
  const length = Math.sqrt(sum);
  if (length === 0) return;
  for (let i = 0; i < vector.length; i++) vector[i] = (vector[i] ?? 0) / length;
}
