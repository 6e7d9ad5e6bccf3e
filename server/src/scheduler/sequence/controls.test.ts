import assert from "node:assert/strict";
import { test } from "node:test";
import { FLAG, fakeSequenceConfig } from "../../../../tests/fakes/sequences.ts";
import type { ModelSequenceBatchingControl } from "../../core/model-config.ts";
import { SequenceControls } from "./controls.ts";

function controlsOf(control: Omit<ModelSequenceBatchingControl, "kind">, kind: ModelSequenceBatchingControl["kind"]) {
  const controls = [{ name: "C", control: [{ ...control, kind }] }];
  return new SequenceControls(fakeSequenceConfig({ control_input: controls }));
}

const LISTS = { int32_false_true: [], fp32_false_true: [], bool_false_true: [], data_type: "TYPE_INVALID" } as const;
const ROW = { id: 7n, start: true, end: false, ready: true };

const FLAGS = [
  { control: { ...LISTS, int32_false_true: [3, -2] }, datatype: "INT32", off: "03000000", on: "feffffff" },
  { control: { ...LISTS, fp32_false_true: [0, 1.5] }, datatype: "FP32", off: "00000000", on: "0000c03f" },
  { control: { ...LISTS, bool_false_true: [true, false] }, datatype: "BOOL", off: "01", on: "00" },
];

for (const { control, datatype, off, on } of FLAGS) {
  test(`SequenceControls writes a flag of ${datatype} with the values of the configuration`, () => {
    const controls = controlsOf(control, "CONTROL_SEQUENCE_START");
    const shown = [ROW, { ...ROW, start: false }].map((row) => controls.tensors(row)[0]);
    assert.deepEqual(
      shown.map((tensor) => [
        tensor?.name,
        tensor?.datatype,
        tensor?.shape,
        Buffer.from(tensor?.data ?? []).toString("hex"),
      ]),
      [
        ["C", datatype, [1, 1], on],
        ["C", datatype, [1, 1], off],
      ],
    );
  });
}

const IDS = [
  { type: "TYPE_UINT64", id: 2n ** 64n - 1n, hex: "ffffffffffffffff", none: "0000000000000000" },
  { type: "TYPE_INT64", id: 258n, hex: "0201000000000000", none: "0000000000000000" },
  { type: "TYPE_UINT32", id: 2n ** 32n + 5n, hex: "05000000", none: "00000000" },
  { type: "TYPE_INT32", id: 2n ** 63n + 6n, hex: "06000000", none: "00000000" },
  { type: "TYPE_STRING", id: "aé", hex: "0300000061c3a9", none: "00000000" },
] as const;

for (const { type, id, hex, none } of IDS) {
  test(`SequenceControls writes a correlation id of ${type}, and none in an empty row`, () => {
    const controls = controlsOf({ ...LISTS, data_type: type }, "CONTROL_SEQUENCE_CORRID");
    const shown = [controls.tensors({ ...ROW, id }), controls.nullTensors()].map((tensors) =>
      Buffer.from(tensors[0]?.data ?? []).toString("hex"),
    );
    assert.deepEqual(shown, [hex, none]);
  });
}

test("SequenceControls of a model without a batch dimension have one", () => {
  const config = fakeSequenceConfig({}, { max_batch_size: 0 });
  assert.deepEqual(
    new SequenceControls(config).tensors(ROW).map(({ name, shape }) => [name, shape]),
    ["START", "END", "READY", "CORRID"].map((name) => [name, [1]]),
  );
});

test("SequenceControls takes start, end and ready from the row that they are for", () => {
  const kinds = ["CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_READY"] as const;
  const rows = [
    { id: 1n, start: true, end: false, ready: false },
    { id: 1n, start: false, end: true, ready: false },
    { id: 1n, start: false, end: false, ready: true },
  ];
  const seen = rows.map((row) => kinds.map((kind) => controlsOf(FLAG, kind).tensors(row)[0]?.data[0]));
  assert.deepEqual(seen, [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ]);
});
