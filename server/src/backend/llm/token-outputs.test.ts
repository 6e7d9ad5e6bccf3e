import assert from "node:assert/strict";
import { test } from "node:test";
import type { Tensor } from "../../core/tensor.ts";
import { ElementSlab, TokenOutputs } from "./token-outputs.ts";

const ONE: Uint8Array = new Uint8Array(Int32Array.of(1).buffer);
const FIRST: readonly Tensor[] = [
  { name: "output_ids", datatype: "INT32", shape: [1, 1, 1], data: ONE },
  { name: "sequence_length", datatype: "INT32", shape: [1, 1], data: ONE },
  { name: "cum_log_probs", datatype: "FP32", shape: [1, 1], data: new Uint8Array(4) },
  { name: "output_log_probs", datatype: "FP32", shape: [1, 1, 1], data: new Uint8Array(4) },
];

function intOf({ data }: Tensor): number {
  return new DataView(data.buffer, data.byteOffset).getInt32(0, true);
}

function floatOf({ data }: Tensor): number {
  return new DataView(data.buffer, data.byteOffset).getFloat32(0, true);
}

test("TokenOutputs.of() changes the token and keeps all other tensors", () => {
  const tokens = new TokenOutputs(FIRST, false, new ElementSlab());
  const all = Array.from({ length: 10_000 }, (_, id) => tokens.of({ id, logProb: -1, cumLogProb: -2 }));
  for (const [id, [ids, ...rest]] of all.entries()) {
    assert.ok(ids !== undefined);
    assert.equal(intOf(ids), id);
    assert.deepEqual([ids.shape, ids.datatype, ids.data.length], [[1, 1, 1], "INT32", 4]);
    assert.ok(rest.every((tensor, i) => tensor === FIRST[i + 1]));
  }
});

test("TokenOutputs.of() gives log-probabilities to those who asked", () => {
  const tokens = new TokenOutputs(FIRST, true, new ElementSlab());
  const [, length, sum, own] = tokens.of({ id: 3, logProb: -0.5, cumLogProb: -2.25 });
  assert.ok(sum !== undefined && own !== undefined);
  assert.equal(length, FIRST[1]);
  assert.deepEqual([floatOf(own), floatOf(sum)], [-0.5, -2.25]);
});

test("TokenOutputs.of() gives no output that was not wanted", () => {
  const tokens = new TokenOutputs(FIRST.slice(1, 2), true, new ElementSlab());
  assert.deepEqual(tokens.of({ id: 3, logProb: -1, cumLogProb: -1 }), FIRST.slice(1, 2));
});
