import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordLatentValues } from "./latent-attention.ggml.ts";

const [NUM_TOKENS, NUM_HEADS, VALUE_DIMS, KEY_RANK] = [3, 2, 4, 6];

test("recordLatentValues() multiplies the latent of each head by the head's matrix", async () => {
  const attended = randomFloats(NUM_TOKENS * NUM_HEADS * KEY_RANK, 1);
  const weight = randomFloats(NUM_HEADS * VALUE_DIMS * KEY_RANK, 2);
  const actual = await runOp((graph) => {
    const rows = graph.input("f32", [NUM_HEADS * VALUE_DIMS, KEY_RANK], weight);
    const { base } = graph.ggml;
    const handle = base.reshape3d(graph.claim(), rows.handle, KEY_RANK, VALUE_DIMS, NUM_HEADS);
    const valueUp = { handle, type: "f32", shape: [NUM_HEADS, VALUE_DIMS, KEY_RANK] } as const;
    return recordLatentValues(graph, graph.input("f32", [NUM_TOKENS, NUM_HEADS * KEY_RANK], attended), valueUp);
  });
  const expected = Float32Array.from({ length: NUM_TOKENS * NUM_HEADS * VALUE_DIMS }, (_, at) => {
    const [row, value] = [Math.floor(at / VALUE_DIMS), at % VALUE_DIMS];
    const matrix = ((row % NUM_HEADS) * VALUE_DIMS + value) * KEY_RANK;
    let sum = 0;
    for (let i = 0; i < KEY_RANK; i++) sum += (attended[row * KEY_RANK + i] ?? 0) * (weight[matrix + i] ?? 0);
    return sum;
  });
  assert.ok(maxDifference(actual, expected) < 1e-5);
});
