import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeConfig, fakeInput, fakeOutput } from "../../../../tests/fakes/model-config.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { checkEnsemble } from "./ensemble-check.ts";

const part = (changes: Partial<ModelConfig> = {}): ModelConfig =>
  fakeConfig({
    name: "part",
    max_batch_size: 4,
    input: [fakeInput("X", [4])],
    output: [fakeOutput("Y", [4])],
    ...changes,
  });

const ensemble = (
  changes: Partial<ModelConfig> = {},
  maps: { input?: Record<string, string>; output?: Record<string, string> } = {},
): ModelConfig =>
  fakeConfig({
    name: "e",
    max_batch_size: 4,
    input: [fakeInput("IN", [4])],
    output: [fakeOutput("OUT", [4])],
    ensemble_scheduling: {
      step: [
        {
          model_name: "part",
          model_version: -1,
          input_map: maps.input ?? { X: "IN" },
          output_map: maps.output ?? { Y: "OUT" },
          model_namespace: "",
        },
      ],
      max_inflight_requests: 0,
    },
    ...changes,
  });

test("checkEnsemble() accepts steps whose tensors meet, wildcards included", () => {
  checkEnsemble(ensemble(), () => part());
  checkEnsemble(ensemble(), () => part({ input: [fakeInput("X", [-1])] }));
  checkEnsemble(
    ensemble({ max_batch_size: 0, input: [fakeInput("IN", [-1, 4])], output: [fakeOutput("OUT", [-1, 4])] }),
    () => part(),
  );
});

const REFUSED: readonly { title: string; config: ModelConfig; part?: ModelConfig; text: RegExp }[] = [
  { title: "a missing model", config: ensemble(), text: /ensemble 'e' depends on 'part' which has no loaded version/ },
  {
    title: "another type",
    config: ensemble(),
    part: part({ input: [fakeInput("X", [4], { data_type: "TYPE_FP32" })] }),
    text: /ensemble tensor 'IN': inconsistent data type: TYPE_INT32 is inferred from ensemble 'e' while TYPE_FP32/,
  },
  {
    title: "another shape",
    config: ensemble(),
    part: part({ output: [fakeOutput("Y", [5])] }),
    text: /ensemble tensor 'OUT': inconsistent shape: \[4\].*\[5\]/,
  },
  {
    title: "a batch too large for a step",
    config: ensemble({ max_batch_size: 8 }),
    part: part(),
    text: /allows maximum batch size 8, but it contains model 'part'/,
  },
  {
    title: "an input that the model lacks",
    config: ensemble({}, { input: { X: "IN", Z: "IN" } }),
    part: part(),
    text: /non-existing input 'Z' in model 'part'/,
  },
  {
    title: "an output that the model lacks",
    config: ensemble({}, { output: { W: "OUT" } }),
    part: part(),
    text: /non-existing output 'W'/,
  },
  {
    title: "an input left open",
    config: ensemble(),
    part: part({ input: [fakeInput("X", [4]), fakeInput("V", [1])] }),
    text: /input 'V' of model 'part' is not mapped/,
  },
];

for (const { title, config, part: model, text } of REFUSED) {
  test(`checkEnsemble() refuses ${title}`, () => {
    assert.throws(() => checkEnsemble(config, () => model), text);
  });
}
