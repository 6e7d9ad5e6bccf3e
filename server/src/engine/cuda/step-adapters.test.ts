import assert from "node:assert/strict";
import { test } from "node:test";
import { LORA_PARTS, loraLowBytes } from "../../../kernels/lora/lora.cuda.ts";
import { layOutStep } from "../../models/cuda/step-layout.ts";
import { encodeRows } from "./adapters.ts";
import { adapterSizes, packAdapters, planStepAdapters } from "./step-adapters.ts";

const LOADED = new Map([
  [1, { address: 0x100n, maxRank: 16 }],
  [2, { address: 0x2_0000_0000n, maxRank: 48 }],
]);
const NUMBERS = 0x9000n;
const blockTable = Int32Array.of(0);

/** Rows of sequences with these adapters, one after the other. */
function stepOf(...parts: readonly (readonly [length: number, adapter?: number])[]) {
  let queryStart = 0;
  const sequences = parts.map(([queryLength, adapter]) => {
    queryStart += queryLength;
    const start = queryStart - queryLength;
    return { queryStart: start, queryLength, contextLength: queryLength, blockTable, adapter };
  });
  return { sequences, logitRows: Int32Array.from(sequences, (each) => each.queryStart + each.queryLength - 1) };
}

const SIZES = { numTokens: 8, numSequences: 3, maxBlocks: 1, numLogitRows: 3, numChoices: 0 };

test("planStepAdapters() plans nothing for steps without adapters", () => {
  assert.equal(planStepAdapters(stepOf([3], [2]), LOADED), undefined);
  assert.deepEqual(adapterSizes(undefined), {});
});

for (const maxRank of [1, 16, 17, 48, 64, 80, 144]) {
  test(`planStepAdapters() takes no larger ranks than there is room for where adapters have up to ${maxRank}`, () => {
    const maxTokens = 2048;
    const own = 16 * Math.ceil(maxRank / 16);
    const plan = planStepAdapters(stepOf([maxTokens, 1]), new Map([[1, { address: 0x100n, maxRank: own }]]));
    assert.ok(plan !== undefined && plan.maxRank >= maxRank);
    // f32 [rows, parts, rank]
    const neededBytes = 4 * maxTokens * LORA_PARTS * plan.maxRank;
    assert.ok(neededBytes <= loraLowBytes(maxTokens, maxRank), `${neededBytes} bytes`);
  });
}

test("packAdapters() tells kernels where the tiles of all rows and of the rows of logits are", () => {
  const plan = planStepAdapters(stepOf([3, 2], [2], [3, 1]), LOADED);
  assert.ok(plan);
  const layout = layOutStep({ ...SIZES, ...adapterSizes(plan) });
  const words = new Int32Array(layout.length);
  const { lora, keptLora } = packAdapters(plan, layout, words, NUMBERS);
  assert.ok(lora && keptLora);
  // 48 as a power of two.
  assert.deepEqual([lora.maxRank, lora.numTiles, keptLora.numTiles], [64, 2, 2]);
  const addresses = new BigUint64Array(words.slice(layout.loraAdapters, layout.loraAdapters + 4).buffer);
  assert.deepEqual([...addresses], [0x2_0000_0000n, 0x100n]);
  assert.equal(lora.adapters, NUMBERS + BigInt(4 * layout.loraAdapters));
  const rowsOf = (at: number): number[] => [...words.subarray(at, at + 8)].filter((row) => row >= 0);
  assert.deepEqual(
    [rowsOf(layout.loraRows), rowsOf(layout.loraRows + 8)],
    [
      [0, 1, 2],
      [5, 6, 7],
    ],
  );
  assert.deepEqual([rowsOf(layout.keptLoraRows), rowsOf(layout.keptLoraRows + 8)], [[0], [2]]);
});

test("planStepAdapters() of a recorded step has a tile for each of its rows and none for kept ones", () => {
  const plan = planStepAdapters(stepOf([1, 1], [1], [1, 1]), LOADED, 4);
  assert.deepEqual([plan?.all.tiles, plan?.kept], [{ numTiles: 4, rowsPerTile: 8 }, undefined]);
});

test("encodeRows() fills rows up with zeros, and those behind the last with nothing else", () => {
  const matrix = { offset: 0, values: Float32Array.of(1, 2, 3, 4, 5, 6), width: 3, paddedRows: 3, paddedWidth: 4 };
  const bytes = new Uint8Array(2 * 4 * 4).fill(0xff);
  encodeRows(matrix, 1, "f32", bytes);
  assert.deepEqual([...new Float32Array(bytes.buffer)], [4, 5, 6, 0, 0, 0, 0, 0]);
  const halves = new Uint8Array(2 * 2 * 4).fill(0xff);
  encodeRows({ ...matrix, width: 4, values: Float32Array.of(1, 2, 3, 4) }, 0, "bf16", halves);
  assert.deepEqual([...new Uint16Array(halves.buffer)], [0x3f80, 0x4000, 0x4040, 0x4080, 0, 0, 0, 0]);
});
