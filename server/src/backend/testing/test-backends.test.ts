/** Backends of Triton's suites that compute next to nothing: query, distributed_addsub, implicit_state, and repeat without a stream. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestRepository } from "../../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Backend } from "../backend.ts";
import { createDistributedAddsubBackend } from "./distributed-addsub.ts";
import { createImplicitStateBackend } from "./implicit-state.ts";
import { createQueryBackend } from "./query.ts";
import { createRepeatBackend } from "./repeat.ts";

type Flags = Parameters<typeof fakeRequest>[1];

async function served(config: string, backend: Backend) {
  const repository = createTestRepository({ "m/config.pbtxt": config, "m/1/.keep": "" }, [backend]);
  await repository.manager.load("m", {});
  const ask = async (inputs: readonly Tensor[], flags: Flags = {}) =>
    (await collect(repository.registry.lookUp("m", "").infer(fakeRequest(inputs, flags))))[0];
  return { ask, [Symbol.asyncDispose]: () => repository[Symbol.asyncDispose]() };
}

const QUERY = `backend: "query" input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ] output [
  { name: "OUTPUT0" data_type: TYPE_UINT8 dims: [ -1 ] }, { name: "OUTPUT1" data_type: TYPE_UINT8 dims: [ -1 ] } ]`;

test("query tells by an error where outputs would be, or sends them", async () => {
  const asked = { TEST_FAIL_WITH_QUERY_RESULT: "1", TEST_BYTE_SIZE: "4" };
  await using told = await served(QUERY, createQueryBackend(asked));
  await assert.rejects(told.ask([int32("INPUT", [1], [1])]), /OUTPUT0 CPU 0; OUTPUT1 CPU 0; /);
  await using anonymous = await served(QUERY, createQueryBackend({ ...asked, TEST_ANONYMOUS: "1" }));
  await assert.rejects(anonymous.ask([int32("INPUT", [1], [1])]), /NULL CPU 0; /);
  await using sent = await served(QUERY, createQueryBackend({ TEST_BYTE_SIZE: "4" }));
  const { outputs = [] } = (await sent.ask([int32("INPUT", [1], [1])])) ?? {};
  assert.deepEqual(
    outputs.map(({ name, shape }) => [name, shape]),
    [
      ["OUTPUT0", [4]],
      ["OUTPUT1", [4]],
    ],
  );
});

function addsub(groups: string): string {
  const tensors = (name: string): string =>
    [0, 1].map((i) => `{ name: "${name}${i}" data_type: TYPE_INT32 dims: [ 2 ] }`).join(",");
  return `backend: "distributed_addsub" input [ ${tensors("INPUT")} ] output [ ${tensors("OUTPUT")} ] instance_group [ ${groups} ]`;
}

test("distributed_addsub adds and subtracts, and needs a passive group", async () => {
  const config = addsub("{ kind: KIND_CPU }, { kind: KIND_CPU passive: true }");
  await using model = await served(config, createDistributedAddsubBackend());
  const { outputs = [] } =
    (await model.ask([int32("INPUT0", [2], [5, 2 ** 31 - 1]), int32("INPUT1", [2], [7, 1])])) ?? {};
  assert.deepEqual(outputs.map(int32Values), [
    [12, -(2 ** 31)],
    [-2, 2 ** 31 - 2],
  ]);
  await assert.rejects(
    served(addsub("{ kind: KIND_CPU }"), createDistributedAddsubBackend()),
    /needs an instance group with passive: true/,
  );
});

function stateful(state: string): string {
  return `backend: "implicit_state" sequence_batching { control_input [ { name: "START"
      control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ] ${state} }
    input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "TEST_CASE" data_type: TYPE_INT32 dims: [ 1 ] } ]
    output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]`;
}

const STATE = `state [ { input_name: "INPUT_STATE" output_name: "OUTPUT_STATE" data_type: TYPE_INT32 dims: 1 } ]`;

test("implicit_state refuses a state that the configuration lacks, and may leave a state as it was", async () => {
  const inputs = (testCase: number) => [int32("INPUT", [1], [3]), int32("TEST_CASE", [1], [testCase])];
  const start = { sequence: { id: 1n, start: true, end: true } };
  await using without = await served(stateful(""), createImplicitStateBackend());
  await assert.rejects(without.ask(inputs(0), start), /State configuration is missing for model 'm'/);
  await using model = await served(stateful(STATE), createImplicitStateBackend());
  await assert.rejects(model.ask(inputs(0), start), /state 'undefined_state' is not a valid state name/);
  for (const flags of [
    { start: true, end: false },
    { start: false, end: false },
    { start: false, end: true },
  ]) {
    const answer = await model.ask(inputs(1), { sequence: { id: 2n, ...flags } });
    assert.deepEqual(answer?.outputs.map(int32Values), [[3]]);
  }
  await assert.rejects(model.ask(inputs(3), { sequence: { id: 3n, start: true, end: true } }), /needs memory of a GPU/);
});

test("repeat without a stream answers one element and refuses several", async () => {
  const config = `backend: "repeat" input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] } ] output [
    { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]`;
  await using model = await served(config, createRepeatBackend());
  const answer = await model.ask([int32("IN", [1], [42])]);
  assert.deepEqual(answer?.outputs.map(int32Values), [[42], [0]]);
  await assert.rejects(model.ask([int32("IN", [2], [1, 2])]), /expected a single response, got 2/);
});
