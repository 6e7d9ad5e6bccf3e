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

const check = (config: ModelConfig, model: ModelConfig | undefined, versions = ["3"]): void =>
  checkEnsemble(config, () => (model === undefined ? [] : versions.map((version) => ({ version, config: model }))));

/** The ensemble with a step of that version. */
const versioned = (model_version: number): ModelConfig => {
  const { ensemble_scheduling: scheduling, ...rest } = ensemble();
  const step = (scheduling?.step ?? []).map((one) => ({ ...one, model_version }));
  return { ...rest, ensemble_scheduling: { step, max_inflight_requests: 0 } };
};

test("checkEnsemble() accepts steps whose tensors meet, wildcards included", () => {
  check(ensemble(), part());
  check(ensemble(), part({ input: [fakeInput("X", [-1])] }));
  check(
    ensemble({ max_batch_size: 0, input: [fakeInput("IN", [-1, 4])], output: [fakeOutput("OUT", [-1, 4])] }),
    part(),
  );
});

test("checkEnsemble() compares the reshaped shapes of the ensemble with the plain ones of its models", () => {
  const shape = (...dims: number[]) => ({ reshape: { shape: dims } });
  const outside = (input: number[], output: number[], batch = 4): ModelConfig =>
    ensemble({
      max_batch_size: batch,
      input: [fakeInput("IN", [2, 8], shape(...input))],
      output: [fakeOutput("OUT", [16, 1], shape(...output))],
    });
  const flat = part({ input: [fakeInput("X", [16], shape(4, 4))], output: [fakeOutput("Y", [4, 4], shape(16))] });
  check(outside([16], [4, 4]), flat);
  check(outside([-1], [4, -1]), flat);
  assert.throws(() => check(outside([2, 8], [4, 4]), flat), {
    message:
      "in ensemble e, ensemble tensor IN: inconsistent shape: [-1,2,8] is inferred from model e while [-1,16] is inferred from model part",
  });
  assert.throws(() => check(outside([4, 4], [4, 4]), flat), /tensor IN: .* \[-1,4,4\]/);
  assert.throws(() => check(outside([16], [16]), flat), /tensor OUT: .* \[-1,16\]/);
  check(outside([], [], 0), part({ max_batch_size: 0, input: [fakeInput("X", [])], output: [fakeOutput("Y", [])] }));
});

test("checkEnsemble() wants the version that a step names among the loaded ones", () => {
  for (const wanted of [-1, 0, 3, 12]) check(versioned(wanted), part(), ["3", "12"]);
  for (const wanted of [1, 2, 120]) {
    assert.throws(() => check(versioned(wanted), part(), ["3", "12"]), {
      code: "invalid_argument",
      message: `ensemble 'e' depends on 'part' whose required version ${wanted} is not loaded.`,
    });
  }
});

test("checkEnsemble() refuses outputs that come from two streams", () => {
  const step = (Y: string) => ({
    model_name: "part",
    model_version: -1,
    model_namespace: "",
    input_map: { X: "IN" },
    output_map: { Y },
  });
  const config = ensemble({
    output: [fakeOutput("OUT", [4]), fakeOutput("MORE", [4])],
    ensemble_scheduling: { step: [step("OUT"), step("MORE")], max_inflight_requests: 0 },
  });
  check(config, part());
  assert.throws(() => check(config, part({ model_transaction_policy: { decoupled: true } })), {
    message: "in ensemble e, step of model 'e' receives inputs originated from different decoupled models",
  });
});

const REFUSED: readonly { title: string; config: ModelConfig; part?: ModelConfig; text: RegExp }[] = [
  { title: "a missing model", config: ensemble(), text: /ensemble 'e' depends on 'part' which has no loaded version/ },
  {
    title: "another type",
    config: ensemble(),
    part: part({ input: [fakeInput("X", [4], { data_type: "TYPE_FP32" })] }),
    text: /in ensemble e, ensemble tensor IN: inconsistent data type: TYPE_INT32 is inferred from model e while TYPE_FP32/,
  },
  {
    title: "another shape",
    config: ensemble(),
    part: part({ output: [fakeOutput("Y", [5])] }),
    text: /ensemble tensor OUT: inconsistent shape: \[-1,4\].*\[-1,5\]/,
  },
  {
    title: "a batch too large for a step",
    config: ensemble({ max_batch_size: 8 }),
    part: part(),
    text: /allows maximum batch size 8, but it contains model part which/,
  },
  {
    title: "an input that the model lacks",
    config: ensemble({}, { input: { X: "IN", Z: "IN" } }),
    part: part(),
    text: /ensemble tensor IN is mapping to non-existing input Z in model part/,
  },
  {
    title: "an output that the model lacks",
    config: ensemble({}, { output: { W: "OUT" } }),
    part: part(),
    text: /ensemble tensor OUT is mapped from non-existing output W in model part/,
  },
  {
    title: "an input left open",
    config: ensemble(),
    part: part({ input: [fakeInput("X", [4]), fakeInput("V", [1])] }),
    text: /input V in model part is not mapped to any ensemble tensors/,
  },
];

for (const { title, config, part: model, text } of REFUSED) {
  test(`checkEnsemble() refuses ${title}`, () => {
    assert.throws(() => check(config, model), text);
  });
}
