/** Makes one vector of the rows of each text. Pure. Source: sentence-transformers, models/Pooling.py. */
import type { EncoderPooling } from "./read-head.ts";

interface Span {
  readonly queryStart: number;
  readonly queryLength: number;
}

/** Rows of a pass that the pooling reads, by text. */
export function pooledRows(pooling: EncoderPooling, texts: readonly Span[]): Int32Array {
  if (pooling === "cls") return Int32Array.from(texts, ({ queryStart }) => queryStart);
  if (pooling === "last") return Int32Array.from(texts, ({ queryStart, queryLength }) => queryStart + queryLength - 1);
  const total = texts.reduce((sum, { queryLength }) => sum + queryLength, 0);
  return Int32Array.from({ length: total }, (_, row) => row);
}

/** `rows` are those of `pooledRows()`: [count, width]. Gives [width] for each text. */
export function poolRows(
  pooling: EncoderPooling,
  rows: Float32Array,
  texts: readonly Span[],
  width: number,
): readonly Float32Array[] {
  const row = (index: number): Float32Array => rows.subarray(index * width, (index + 1) * width);
  if (pooling === "cls" || pooling === "last") return texts.map((_, i) => row(i).slice());
  return texts.map(({ queryStart, queryLength }) => {
    const isMax = pooling === "max";
    const out = new Float32Array(width).fill(isMax ? Number.NEGATIVE_INFINITY : 0);
    for (let i = 0; i < queryLength; i++) {
      for (const [column, value] of row(queryStart + i).entries()) {
        const before = out[column] ?? 0;
        out[column] = isMax ? Math.max(before, value) : before + value / queryLength;
      }
    }
    return out;
  });
}
