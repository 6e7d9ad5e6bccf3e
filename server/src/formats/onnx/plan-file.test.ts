import assert from "node:assert/strict";
import { test } from "node:test";
import { PLAN_FORMAT_VERSION, type PlanNote, planContent, planNoteParts } from "./plan-file.ts";

const NOTE: PlanNote = {
  formatVersion: PLAN_FORMAT_VERSION,
  precision: ["fp32", "fp16"],
  min: { "a:0": [1, 1] },
  opt: { "a:0": [4, 16] },
  max: { "a:0": [8, 64] },
};
const bytesOf = (note: unknown): Uint8Array => Buffer.concat(planNoteParts(note as PlanNote) as Uint8Array[]);

test("planContent() gives back the note that stands in front of a model", () => {
  const start = Buffer.concat([bytesOf(NOTE), Uint8Array.of(8, 8)]);
  assert.deepEqual(planContent(start), { kind: "nereid", note: NOTE });
});

test("planContent() knows NVIDIA's engines by their first bytes", () => {
  for (const magic of ["ptrt", "trtp", "ftrt", "trtf"]) {
    assert.deepEqual(planContent(Buffer.from(`${magic}\0\0\0\0rest`)), { kind: "nvidia" }, magic);
  }
});

test("planContent() takes nothing else for an engine, whatever its bytes", () => {
  const whole = bytesOf(NOTE);
  const cases: Uint8Array[] = [
    new Uint8Array(0),
    Uint8Array.of(0x08, 0x08),
    Uint8Array.of(0x72),
    Uint8Array.of(0x72, 0xff, 0xff, 0xff, 0xff, 0xff),
    whole.subarray(0, whole.byteLength - 1),
    bytesOf("text"),
    bytesOf({ ...NOTE, max: { a: ["8"] } }),
    bytesOf({ ...NOTE, min: undefined }),
    Buffer.from(whole).fill("}", 20, 30),
  ];
  for (const bytes of cases)
    assert.deepEqual(planContent(bytes), { kind: "other" }, Buffer.from(bytes).toString("hex"));
});
