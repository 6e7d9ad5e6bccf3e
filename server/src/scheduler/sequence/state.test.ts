import assert from "node:assert/strict";
import { test } from "node:test";
import { int32, int32Values } from "../../../../tests/fakes/requests.ts";
import { fakeSequenceConfig } from "../../../../tests/fakes/sequences.ts";
import type { ModelSequenceBatchingState } from "../../core/model-config.ts";
import { SequenceState, stateSpecs } from "./state.ts";

const STATE: ModelSequenceBatchingState = {
  input_name: "S_IN",
  output_name: "S_OUT",
  data_type: "TYPE_INT32",
  dims: [2],
  initial_state: [],
  use_same_buffer_for_input_output: false,
  use_growable_memory: false,
};
const INITIAL = { name: "i", data_type: "TYPE_INT32", dims: [2] } as const;

function specs(changes: Partial<ModelSequenceBatchingState>, file?: readonly number[], maxBatchSize = 4) {
  const config = fakeSequenceConfig({ state: [{ ...STATE, ...changes }] }, { max_batch_size: maxBatchSize });
  return stateSpecs(config, new Map(file === undefined ? [] : [["S_IN", Uint8Array.from(file)]]));
}

test("SequenceState begins with zeros, goes on with what the model put out, and begins anew on reset", () => {
  const state = new SequenceState(specs({}));
  assert.deepEqual(
    state.inputs.map((tensor) => [tensor.name, tensor.datatype, tensor.shape, int32Values(tensor)]),
    [["S_IN", "INT32", [1, 2], [0, 0]]],
  );
  state.take([int32("Y", [1, 1], [9]), int32("S_OUT", [1, 2], [3, 4])]);
  assert.deepEqual(int32Values(state.inputs[0]), [3, 4]);
  assert.equal(state.inputs[0]?.name, "S_IN");
  state.reset();
  assert.deepEqual(int32Values(state.inputs[0]), [0, 0]);
});

test("SequenceState keeps a state that the model left out", () => {
  const state = new SequenceState(specs({}));
  state.take([int32("S_OUT", [1, 2], [3, 4])]);
  state.take([int32("Y", [1, 1], [9])]);
  assert.deepEqual(int32Values(state.inputs[0]), [3, 4]);
});

test("SequenceState does not depend on the memory of the response", () => {
  const state = new SequenceState(specs({}));
  const output = int32("S_OUT", [1, 2], [3, 4]);
  state.take([output]);
  output.data.fill(0);
  assert.deepEqual(int32Values(state.inputs[0]), [3, 4]);
});

test("SequenceState follows the shape of the last output where a dimension is free", () => {
  const state = new SequenceState(specs({ dims: [-1] }));
  assert.deepEqual(state.inputs[0]?.shape, [1, 1]);
  state.take([int32("S_OUT", [1, 3], [1, 2, 3])]);
  assert.deepEqual(state.inputs[0]?.shape, [1, 3]);
});

for (const [title, output] of [
  ["another shape", int32("S_OUT", [1, 3], [1, 2, 3])],
  ["another type", { ...int32("S_OUT", [1, 2], [1, 2]), datatype: "FP32" as const }],
] as const) {
  test(`SequenceState refuses ${title} and keeps what it had`, () => {
    const state = new SequenceState(specs({}));
    state.take([int32("S_OUT", [1, 2], [3, 4])]);
    assert.throws(() => state.take([output]), { code: "internal", message: /^state 'S_OUT' must be INT32 \[1,2\]/ });
    assert.deepEqual(int32Values(state.inputs[0]), [3, 4]);
  });
}

test("stateSpecs() takes the initial state from a file, in the initial state's own dims", () => {
  const [spec] = specs({ dims: [-1], initial_state: [{ ...INITIAL, data_file: "f" }] }, [1, 0, 0, 0, 2, 0, 0, 0], 0);
  assert.deepEqual([spec?.initial.shape, int32Values(spec?.initial)], [[2], [1, 2]]);
});

test("stateSpecs() makes empty strings of zero data", () => {
  const [spec] = specs({
    data_type: "TYPE_STRING",
    initial_state: [{ ...INITIAL, data_type: "TYPE_STRING", zero_data: true }],
  });
  assert.deepEqual([spec?.initial.datatype, spec?.initial.data.length], ["BYTES", 8]);
});

const BROKEN: readonly (readonly [string, Partial<ModelSequenceBatchingState>, RegExp, (readonly number[])?])[] = [
  ["growable memory", { use_growable_memory: true }, /needs instances of KIND_GPU/],
  ["two initial states", { initial_state: [INITIAL, INITIAL] }, /at most one initial_state, got 2/],
  [
    "an initial state of another type",
    { initial_state: [{ ...INITIAL, data_type: "TYPE_FP32" }] },
    /must be TYPE_INT32/,
  ],
  ["an initial state of other dims", { initial_state: [{ ...INITIAL, dims: [3] }] }, /dims like \[2\], got \[3\]/],
  ["free dims of an initial state", { dims: [-1], initial_state: [{ ...INITIAL, dims: [-1] }] }, /got \[-1\]/],
  [
    "a file of another size",
    { initial_state: [{ ...INITIAL, data_file: "f" }] },
    /must have 8 bytes, got 3/,
    [1, 2, 3],
  ],
  ["more memory than there is", { dims: [2 ** 40] }, /at most 2147483647 bytes/],
];

for (const [title, changes, message, file] of BROKEN) {
  test(`stateSpecs() refuses ${title}`, () => {
    assert.throws(() => specs(changes, file), { code: "invalid_argument", message });
  });
}
