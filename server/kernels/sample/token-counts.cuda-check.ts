/** Rows of token counts on a GPU: exactly the tokens listed, zeros elsewhere, other rows as they were. Source: token-counts.cu. */
import { type CudaCheck, type CudaCheckContext, shareOfDifferences } from "../testing/cuda-check.ts";
import { COUNT_SEEN } from "./sample-params.ts";
import { launchTokenCounts } from "./token-counts.cuda.ts";

const NUM_TABLE_ROWS = 5;
const UNTOUCHED = 0x1234;

interface Way {
  readonly vocab: number;
  /** How many tokens each row of the table gets; absent rows stay as they are. */
  readonly lengths: ReadonlyMap<number, number>;
}

const WAYS: readonly Way[] = [
  { vocab: 1004, lengths: new Map([[3, 7]]) },
  {
    vocab: 32_000,
    lengths: new Map([
      [4, 0],
      [0, 3000],
      [2, 1],
    ]),
  },
  { vocab: 128_256, lengths: new Map([[1, 128_256]]) },
];

export const cudaChecks: readonly CudaCheck[] = WAYS.map((way) => ({
  name: `token counts ${way.vocab} of ${way.lengths.size} rows`,
  maxError: 0,
  shows: [`rows ${way.lengths.size}`],
  run: (context) => runWay(context, way),
}));

async function runWay(context: CudaCheckContext, { vocab, lengths }: Way): Promise<number> {
  const expected = new Uint16Array(NUM_TABLE_ROWS * vocab).fill(UNTOUCHED);
  const table = context.upload(expected);
  const rows: number[] = [];
  const entries: number[] = [];
  for (const [row, length] of lengths) {
    const first = entries.length / 2;
    expected.fill(0, row * vocab, (row + 1) * vocab);
    for (let i = 0; i < length; i++) {
      const [token, count] = [(i * 7919 + row) % vocab, COUNT_SEEN + (i % 9)];
      entries.push(token, count);
      expected[row * vocab + token] = count;
    }
    rows.push(row, first, entries.length / 2);
  }
  const lists = {
    rows: context.upload(Int32Array.from(rows)),
    entries: context.upload(Int32Array.from([...entries, 0])),
  };
  launchTokenCounts(context.stream, { table, ...lists, numRows: lengths.size, vocab });
  const written = new Uint16Array(expected.length);
  await context.download(table, written);
  return shareOfDifferences(Int32Array.from(written), Int32Array.from(expected));
}
