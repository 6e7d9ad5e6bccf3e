import assert from "node:assert/strict";
import { test } from "node:test";
import type { Datatype } from "@nereid/wire";
import { fakeConfig, fakeInput, fakeOutput } from "../../../tests/fakes/model-config.ts";
import type { TensorMetadata } from "../core/model-server.ts";
import { textSignature } from "./text-signature.ts";

type Tensor = readonly [name: string, datatype: Datatype];

function tensorsOf(list: readonly Tensor[]): Map<string, TensorMetadata> {
  return new Map(list.map(([name, datatype]) => [name, { name, datatype, shape: [-1, 1] }]));
}

function signature(inputs: readonly Tensor[], outputs: readonly Tensor[]): ReturnType<typeof textSignature> {
  const config = fakeConfig({
    max_batch_size: 1,
    input: inputs.map(([name]) => fakeInput(name, [1])),
    output: outputs.map(([name]) => fakeOutput(name, [1])),
  });
  return textSignature({ inputs: tensorsOf(inputs), outputs: tensorsOf(outputs), config });
}

test("textSignature() finds an engine by its token ids", () => {
  const found = signature(
    [
      ["input_ids", "INT32"],
      ["input_lengths", "INT32"],
      ["request_output_len", "INT32"],
    ],
    [["output_ids", "INT32"]],
  );
  assert.ok("kind" in found);
  assert.equal(found.kind, "tokens");
  assert.equal(found.samples, false);
});

test("textSignature() takes the only text tensors of a model with names of its own", () => {
  const found = signature([["QUESTION", "BYTES"]], [["ANSWER", "BYTES"]]);
  assert.ok("kind" in found);
  assert.deepEqual([found.inputs.get("text")?.name, found.outputs.get("text")?.name], ["QUESTION", "ANSWER"]);
});

const REFUSED: readonly (readonly [
  what: string,
  inputs: readonly Tensor[],
  outputs: readonly Tensor[],
  reason: RegExp,
])[] = [
  ["no text input", [["x", "FP32"]], [["text_output", "BYTES"]], /no input of TYPE_STRING/],
  ["no text output", [["text_input", "BYTES"]], [["y", "FP32"]], /no output of TYPE_STRING/],
  [
    "a further required input",
    [
      ["text_input", "BYTES"],
      ["x", "FP32"],
    ],
    [["text_output", "BYTES"]],
    /required inputs that no request field fills: 'x'/,
  ],
];

for (const [what, inputs, outputs, reason] of REFUSED) {
  test(`textSignature() says why a model with ${what} is none of text`, () => {
    const found = signature(inputs, outputs);
    assert.ok("reason" in found);
    assert.match(found.reason, reason);
  });
}
