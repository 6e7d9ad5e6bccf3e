/** Rows of logits as the kernels of this folder read them. Source: sample-row.cuh. */
import { ELEM_VEC, type ElemType, expectCount } from "../cuda/launch-args.ts";

/** @throws Error for rows that do not begin at multiples of a 16-byte access */
export function expectLogitRows(
  op: string,
  rows: { readonly type: ElemType; readonly numRows: number; readonly vocab: number; readonly rowStride: number },
): void {
  const { type, numRows, vocab, rowStride } = rows;
  expectCount(op, "row", numRows);
  expectCount(op, "token", vocab);
  if (rowStride < vocab || rowStride % ELEM_VEC[type] !== 0) {
    throw new Error(
      `${op}: expected rows of a multiple of ${ELEM_VEC[type]} and at least ${vocab} logits, got ${rowStride}`,
    );
  }
}
