import assert from "node:assert/strict";
import { test } from "node:test";
import { parseModelConfigText } from "./model-config.ts";
import { normalizeInstanceGroups } from "./normalize.ts";

function groupOf(
  text: string,
  gpus: readonly number[],
): readonly [kind: string, count: number, gpus: readonly number[]] {
  const config = parseModelConfigText(`name: "m" ${text}`, "config.pbtxt");
  const [group] = normalizeInstanceGroups(config, gpus).instance_group;
  return [group?.kind ?? "", group?.count ?? 0, group?.gpus ?? []];
}

test("normalizeInstanceGroups() settles kind, count and devices", () => {
  const gpuGroup = "instance_group { kind: KIND_GPU gpus: 0 }";
  const table: [string, readonly number[], ReturnType<typeof groupOf>][] = [
    ['backend: "python"', [], ["KIND_CPU", 1, []]],
    ['backend: "onnxruntime"', [], ["KIND_CPU", 2, []]],
    ['backend: "llm"', [0, 1], ["KIND_GPU", 1, [0, 1]]],
    [`backend: "onnxruntime" ${gpuGroup}`, [], ["KIND_GPU", 1, [0]]],
    [`backend: "tensorrt" ${gpuGroup}`, [], ["KIND_CPU", 1, []]],
    [`backend: "tensorrt" instance_group { kind: KIND_GPU count: 3 }`, [], ["KIND_CPU", 3, []]],
    [`backend: "tensorrt" ${gpuGroup}`, [0, 1], ["KIND_GPU", 1, [0]]],
  ];
  for (const [text, gpus, expected] of table) assert.deepEqual(groupOf(text, gpus), expected, text);
});
