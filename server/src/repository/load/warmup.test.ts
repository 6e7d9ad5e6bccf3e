import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createTestRepository, identityConfig } from "../../../../tests/fakes/model-repository.ts";
import { int32, int32Values } from "../../../../tests/fakes/requests.ts";
import type { Backend } from "../../backend/backend.ts";
import { createIdentityBackend } from "../../backend/testing/identity.ts";
import { createRepeatBackend } from "../../backend/testing/repeat.ts";

const STRING_IO = `backend: "identity" max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_STRING dims: [ -1 ] } ] output [ { name: "OUTPUT0" data_type: TYPE_STRING dims: [ -1 ] } ]`;
const SAMPLES: readonly (readonly [string, string, string])[] = [
  ["zeros", identityConfig(), "data_type: TYPE_INT32 dims: 16 zero_data: true"],
  ["random numbers", identityConfig(), "data_type: TYPE_INT32 dims: 16 random_data: true"],
  ["empty texts", STRING_IO, "data_type: TYPE_STRING dims: 16 zero_data: true"],
  ["random texts", STRING_IO, "data_type: TYPE_STRING dims: 16 random_data: true"],
  ["texts of a file", STRING_IO, 'data_type: TYPE_STRING dims: 1 input_data_file: "raw_string_data"'],
];
for (const [title, config, input] of SAMPLES) {
  test(`warm-up runs with ${title}, as often as asked, and counts as requests do`, async () => {
    const lines: string[] = [];
    const sample = `model_warmup [ { name: "sample" batch_size: 4 count: 2 inputs { key: "INPUT0" value: { ${input} } } } ]`;
    await using repository = createTestRepository(
      { "m/config.pbtxt": `${config}\n${sample}`, "m/1/.keep": "" },
      [],
      undefined,
      {
        onVerbose: (line) => void lines.push(line),
      },
    );
    mkdirSync(join(repository.path, "m/warmup"));
    writeFileSync(join(repository.path, "m/warmup/raw_string_data"), Buffer.from([3, 0, 0, 0, 0x32, 0x33, 0x33]));
    await repository.manager.load("m", {});
    const ran = lines.filter((line) => line.includes("is running warmup sample 'sample'"));
    assert.deepEqual(
      ran.map((line) => /for iteration \d/.exec(line)?.[0]),
      ["for iteration 1", "for iteration 2"],
    );
    const { inference_count, execution_count } = repository.registry.lookUp("m", "").statistics.snapshot("m", "1");
    assert.deepEqual([inference_count, execution_count], [8, 2]);
  });
}

test("warm-up of a model with sequences takes the control tensors of its sample, row by row", async () => {
  const seen: string[] = [];
  const watching: Backend = {
    ...createIdentityBackend(),
    name: "watching",
    load: async () => ({
      createInstance: async ({ name }) => ({
        name,
        async execute({ requests }) {
          for (const request of requests) {
            seen.push(request.request.inputs.map((input) => `${input.name}=${int32Values(input).join()}`).join(" "));
            request.respond({ outputs: [int32("OUTPUT0", [1, 1], [0])], final: true });
          }
        },
        isReady: () => true,
        close: async () => undefined,
      }),
      close: async () => undefined,
    }),
  };
  const control = (name: string, kind: string): string =>
    `{ name: "${name}" control [ { kind: ${kind} int32_false_true: [ 0, 1 ] } ] }`;
  const value = "value: { data_type: TYPE_INT32 dims: 1 zero_data: true }";
  const config = `backend: "watching" max_batch_size: 8
    input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ] output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
    sequence_batching { control_input [ ${control("START", "CONTROL_SEQUENCE_START")}, ${control("READY", "CONTROL_SEQUENCE_READY")} ] }
    model_warmup [ { name: "sequence sample" count: 2 batch_size: 8
      inputs { key: "INPUT0" ${value} } inputs { key: "START" ${value} } inputs { key: "READY" ${value} } } ]`;
  await using repository = createTestRepository({ "m/config.pbtxt": config, "m/1/.keep": "" }, [watching]);
  await repository.manager.load("m", {});
  assert.equal(seen.length, 16);
  assert.deepEqual([...new Set(seen)], ["INPUT0=0 START=0 READY=0"]);
});

test("warm-up of a model that streams reads each answer to its end", async () => {
  const sample = `model_warmup [ { name: "s" batch_size: 1
    inputs { key: "IN" value: { data_type: TYPE_INT32 dims: 3 zero_data: true } }
    inputs { key: "DELAY" value: { data_type: TYPE_UINT32 dims: 3 zero_data: true } }
    inputs { key: "WAIT" value: { data_type: TYPE_UINT32 dims: 1 zero_data: true } } } ]`;
  await using repository = createTestRepository({ "m/config.pbtxt": `${REPEAT}\n${sample}`, "m/1/.keep": "" }, [
    createRepeatBackend(),
  ]);
  await repository.manager.load("m", {});
  assert.equal(repository.registry.ready("m").length, 1);
});

const REPEAT =
  'backend: "repeat" max_batch_size: 0 model_transaction_policy { decoupled: true } input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] }, { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] } ] output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]';
