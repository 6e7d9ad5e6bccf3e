import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeInput, fakeOutput } from "../../../../tests/fakes/model-config.ts";
import { int32 } from "../../../../tests/fakes/requests.ts";
import {
  answers,
  fakeSequenceBatching,
  fakeSequenceConfig,
  OLDEST,
  type SequenceSetUp,
  setUpSequences,
} from "../../../../tests/fakes/sequences.ts";
import type { ModelConfig, ModelSequenceBatching } from "../../core/model-config.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../observe/log.ts";
import type { Backend, ModelSource } from "../backend.ts";
import { createDynaSequenceBackend } from "./dyna-sequence.ts";
import { createSequenceBackend } from "./sequence.ts";

const START = { start: true };
const END = { end: true };

function configOf(batching: Partial<ModelSequenceBatching>, changes: Partial<ModelConfig> = {}): ModelConfig {
  const tensors = { input: [fakeInput("INPUT", [-1])], output: [fakeOutput("OUTPUT", [-1])] };
  return fakeSequenceConfig(batching, { ...tensors, ...changes });
}

function sourceOf(config: ModelConfig): ModelSource {
  return {
    name: config.name,
    version: 1,
    config,
    modelFolder: "",
    versionFolder: "",
    settings: new Map(),
    log: new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_info: false }),
    models: {
      infer: () => {
        throw new Error("calls no model");
      },
      signature: () => {
        throw new Error("calls no model");
      },
    },
    metrics: { register: () => ({ [Symbol.dispose]: () => undefined }) },
  };
}

async function serve(backend: Backend, config: ModelConfig): Promise<SequenceSetUp> {
  const model = await backend.load(sourceOf(config));
  const spec = { kind: "KIND_CPU", deviceId: 0 } as const;
  const instances = await Promise.all(["m_0", "m_1"].map((name) => model.createInstance({ name, ...spec })));
  return setUpSequences(config, instances);
}

function vector(...values: number[]) {
  return { inputs: [int32("INPUT", [1, values.length], values)] };
}

/** Twelve sequences of ten steps at once, each adding its id every time. */
async function sumsOf({ send }: SequenceSetUp): Promise<(number | string)[]> {
  const ids = Array.from({ length: 12 }, (_, i) => i + 1);
  const ends = ids.map(async (id) => {
    let last: number | string = -1;
    for (let step = 1; step <= 10; step += 1) {
      const flags = { start: step === 1, end: step === 10 };
      [last = -1] = await answers([send(BigInt(id), 0, { ...flags, ...vector(id) })]);
    }
    return last;
  });
  return Promise.all(ends);
}

test("the sequence backend sums up each sequence in its row, with more sequences than slots", async () => {
  const setUp = await serve(createSequenceBackend(), configOf({}));
  assert.deepEqual(
    await sumsOf(setUp),
    Array.from({ length: 12 }, (_, i) => 10 * (i + 1)),
  );
});

test("the dyna_sequence backend sums up by correlation id and adds the id at the end", async () => {
  const oldest = { ...OLDEST, max_candidate_sequences: 3, preferred_batch_size: [2] };
  const setUp = await serve(createDynaSequenceBackend(), configOf({ oldest }));
  assert.deepEqual(
    await sumsOf(setUp),
    Array.from({ length: 12 }, (_, i) => 11 * (i + 1)),
  );
});

test("the sequence backend adds every element and fills a vector of the input's shape", async () => {
  const { send } = await serve(createSequenceBackend(), configOf({}));
  const request = send(1n, 0, { ...START, ...vector(1, 2, 3) });
  const { value: response } = await request.stream.next();
  assert.deepEqual(response?.outputs, [int32("OUTPUT", [1, 3], [6, 6, 6])]);
  assert.deepEqual(await answers([send(1n, 0, vector(2 ** 31 - 1)), send(1n, 0, { ...END, ...vector(5) })]), [
    -(2 ** 31) + 5,
    -(2 ** 31) + 10,
  ]);
});

test("the dyna_sequence backend adds the low 32 bits of an id, and the number that a text begins with", async () => {
  const numeric = await serve(createDynaSequenceBackend(), configOf({ oldest: OLDEST }));
  const flags = { start: true, end: true };
  assert.deepEqual(await answers([numeric.send(2n ** 32n + 7n, 0, { ...flags, ...vector(1) })]), [8]);
  const controls = fakeSequenceBatching().control_input.map((input) => ({
    ...input,
    control: input.control.map((control) =>
      input.name === "CORRID" ? { ...control, data_type: "TYPE_STRING" as const } : control,
    ),
  }));
  const text = await serve(createDynaSequenceBackend(), configOf({ oldest: OLDEST, control_input: controls }));
  assert.deepEqual(await answers(["12", "a"].map((id) => text.send(id, 0, { ...flags, ...vector(1) }))), [13, 1]);
});

const REFUSED: readonly (readonly [string, () => Backend, ModelConfig, RegExp])[] = [
  [
    "no START",
    createSequenceBackend,
    configOf({ control_input: [] }),
    /backend 'sequence' needs a control_input 'START'/,
  ],
  [
    "another input",
    createSequenceBackend,
    configOf({}, { input: [fakeInput("X", [1])] }),
    /needs exactly one vector 'INPUT' of TYPE_INT32/,
  ],
  [
    "an output of another type",
    createDynaSequenceBackend,
    configOf({}, { output: [fakeOutput("OUTPUT", [1], { data_type: "TYPE_FP32" })] }),
    /backend 'dyna_sequence' needs exactly one vector 'OUTPUT'/,
  ],
  [
    "no END",
    createDynaSequenceBackend,
    configOf({ control_input: fakeSequenceBatching().control_input.filter(({ name }) => name !== "END") }),
    /needs a control_input 'END'/,
  ],
];

for (const [title, create, config, message] of REFUSED) {
  test(`the ${create().name} backend refuses a model with ${title}`, async () => {
    await assert.rejects(async () => create().load(sourceOf(config)), { code: "invalid_argument", message });
  });
}
