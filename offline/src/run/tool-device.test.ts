import assert from "node:assert/strict";
import { test } from "node:test";
import type { FoundGpus } from "@nereid/server/device/cuda/find-gpus";
import { chooseDevice } from "./tool-device.ts";

const gpu = (ordinal: number) => ({ ordinal, name: "NVIDIA H200", capability: 90, numBytes: 1e9 });
const TWO: FoundGpus = { gpus: [gpu(0), gpu(1)], notes: [] };
const NONE: FoundGpus = { gpus: [], notes: ["libcuda.so.1 was not found"] };
const cuda = (ordinal: number, isOptional: boolean) => ({ kind: "cuda", ordinal, name: "NVIDIA H200", isOptional });

const CHOSEN: readonly (readonly [word: string, found: FoundGpus, expected: object])[] = [
  ["cpu", TWO, { kind: "cpu" }],
  ["auto", TWO, cuda(0, true)],
  ["auto", NONE, { kind: "cpu" }],
  ["cuda", TWO, cuda(0, false)],
  ["cuda:1", TWO, cuda(1, false)],
  ["gpu:1", TWO, cuda(1, false)],
];

for (const [word, found, expected] of CHOSEN) {
  test(`chooseDevice("${word}") with ${found.gpus.length} GPUs`, () => {
    assert.deepEqual(
      chooseDevice(word, () => found),
      expected,
    );
  });
}

const REFUSED: readonly (readonly [word: string, found: FoundGpus, expected: RegExp])[] = [
  ["cuda", NONE, /--device cuda: no such GPU can be used: libcuda\.so\.1 was not found/],
  ["cuda:7", TWO, /--device cuda:7: no such GPU can be used: those here are 0 \(NVIDIA H200\), 1 \(NVIDIA H200\)/],
  ["tpu", TWO, /--device is auto, cpu, cuda or cuda:<number>, got tpu/],
];

for (const [word, found, expected] of REFUSED) {
  test(`chooseDevice("${word}") is refused`, () => {
    assert.throws(() => chooseDevice(word, () => found), expected);
  });
}
