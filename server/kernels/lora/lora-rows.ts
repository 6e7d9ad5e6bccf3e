/**
 * Groups the rows of a step by adapter, so that each adapter matrix is read once a step. Pure; it knows sequences by
 * the position of their rows. Source: SGMV of Punica (Chen et al. 2023).
 */

/** Rows of one adapter: a run of neighbours, or any. */
export type LoraRows =
  | { readonly kind: "range"; readonly first: number; readonly count: number }
  | { readonly kind: "scattered"; readonly ids: Int32Array };

export interface LoraGroup {
  readonly adapter: number;
  readonly rows: LoraRows;
}

/** A run of rows of one sequence; undefined: without an adapter. */
export interface LoraSpan {
  readonly queryStart: number;
  readonly queryLength: number;
  readonly adapter?: number | undefined;
}

/** The rows of all tokens, by adapter. Spans follow each other. */
export function groupRows(spans: readonly LoraSpan[]): readonly LoraGroup[] {
  const byAdapter = new Map<number, number[]>();
  for (const { queryStart, queryLength, adapter } of spans) {
    if (adapter === undefined) continue;
    const rows = rowsFor(byAdapter, adapter);
    for (let i = 0; i < queryLength; i++) rows.push(queryStart + i);
  }
  return toGroups(byAdapter);
}

/** The same once only `kept` rows go on, in their order: row i is then what row `kept[i]` was. */
export function groupKeptRows(spans: readonly LoraSpan[], kept: Int32Array): readonly LoraGroup[] {
  const byAdapter = new Map<number, number[]>();
  for (let i = 0; i < kept.length; i++) {
    const adapter = adapterAt(spans, kept[i] ?? 0);
    if (adapter !== undefined) rowsFor(byAdapter, adapter).push(i);
  }
  return toGroups(byAdapter);
}

function rowsFor(byAdapter: Map<number, number[]>, adapter: number): number[] {
  const known = byAdapter.get(adapter);
  if (known !== undefined) return known;
  const rows: number[] = [];
  byAdapter.set(adapter, rows);
  return rows;
}

/** By bisection: a step has many rows and some spans. */
function adapterAt(spans: readonly LoraSpan[], row: number): number | undefined {
  let low = 0;
  let high = spans.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((spans[middle]?.queryStart ?? 0) <= row) low = middle;
    else high = middle - 1;
  }
  return spans[low]?.adapter;
}

function toGroups(byAdapter: ReadonlyMap<number, readonly number[]>): readonly LoraGroup[] {
  return Array.from(byAdapter, ([adapter, rows]) => ({ adapter, rows: asRows(rows) }));
}

function asRows(rows: readonly number[]): LoraRows {
  const [first = 0] = rows;
  if (rows.every((row, i) => row === first + i)) return { kind: "range", first, count: rows.length };
  return { kind: "scattered", ids: Int32Array.from(rows) };
}
