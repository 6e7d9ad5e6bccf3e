import assert from "node:assert/strict";
import { test } from "node:test";
import { COUNT_SEEN } from "../../../kernels/sample/sample-params.ts";
import { planRuleTables } from "../../models/cuda/memory.ts";
import { packCounts } from "./rule-tables.ts";

test("packCounts() lists the tokens of each row behind one another, with counts that stay within 15 bits", () => {
  const counts = [
    { row: 4, occurrences: new Map([[7, 0]]) },
    { row: 0, occurrences: new Map<number, number>() },
    {
      row: 2,
      occurrences: new Map([
        [9, 3],
        [1, 70_000],
      ]),
    },
  ];
  const { rows, entries } = packCounts(counts);
  assert.deepEqual([...rows], [4, 0, 1, 0, 1, 1, 2, 1, 3]);
  assert.deepEqual([...entries], [7, COUNT_SEEN, 9, COUNT_SEEN + 3, 1, 2 * COUNT_SEEN - 1]);
});

test("planRuleTables() has a row for each sequence, as far as its memory goes", () => {
  assert.deepEqual(planRuleTables(128_256, 64), { numCountRows: 64, numBiasRows: 64 });
  assert.deepEqual(planRuleTables(128_256, 2048), { numCountRows: 523, numBiasRows: 65 });
  assert.deepEqual(planRuleTables(1000, 8), { numCountRows: 8, numBiasRows: 8 });
});
