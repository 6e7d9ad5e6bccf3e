/**
 * Reference: the rows of a table in the order of `ids`, for embeddings and for the rows of logits. Source: ggml.h,
 * ggml_get_rows.
 */
export interface GatherRowsRef {
  readonly table: Float32Array; // [numRows, width]
  readonly ids: Int32Array; // [count]
  readonly width: number;
}

export function gatherRowsRef({ table, ids, width }: GatherRowsRef): Float32Array {
  const out = new Float32Array(ids.length * width);
  ids.forEach((id, i) => {
    if (id < 0 || (id + 1) * width > table.length) throw new Error(`gatherRows: row ${id} is outside the table`);
    out.set(table.subarray(id * width, (id + 1) * width), i * width);
  });
  return out;
}
