import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fakeOutput } from "../../../../tests/fakes/model-config.ts";
import { collect, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import {
  answers,
  fakeSequenceConfig,
  GatedInstance,
  rowText,
  type SequenceSetUp,
  setUpSequences,
} from "../../../../tests/fakes/sequences.ts";

const START = { start: true };
const END = { end: true };
const BOTH = { start: true, end: true };

function stateConfig(dims: readonly number[], isDeclared: boolean) {
  const names = isDeclared ? ["Y", "S_OUT"] : ["Y"];
  const state = {
    input_name: "S_IN",
    output_name: "S_OUT",
    data_type: "TYPE_INT32",
    dims,
    initial_state: [{ name: "i", data_type: "TYPE_INT32", dims: [1], data_file: "f" }],
    use_same_buffer_for_input_output: false,
    use_growable_memory: false,
  } as const;
  return fakeSequenceConfig({ state: [state] }, { output: names.map((name) => fakeOutput(name, [1])) });
}

/** Y and the new state are X plus the old state; the rows of the batch are noted as "X+state". */
function adding(config: ReturnType<typeof stateConfig>): SequenceSetUp & { instance: GatedInstance } {
  const instance = new GatedInstance();
  instance.execute = async (batch) => {
    const noted = batch.requests.map((backendRequest) => {
      const { inputs } = backendRequest.request;
      const [x, state] = ["X", "S_IN"].map((name) => int32Values(inputs.find((input) => input.name === name)));
      const sum = (x?.[0] ?? 0) + (state?.at(-1) ?? 0);
      backendRequest.respond({ outputs: [int32("Y", [1, 1], [sum]), int32("S_OUT", [1, 1], [sum])], final: true });
      return `${x}+${state}`;
    });
    instance.batches.push(noted);
    await Promise.resolve();
  };
  return { instance, ...setUpSequences(config, [instance], new Map([["S_IN", Uint8Array.of(100, 0, 0, 0)]])) };
}

test("SequenceScheduler gives each sequence its own state, from the initial state of its START on", async () => {
  const { send } = adding(stateConfig([1], false));
  const sums: (number | string)[] = [];
  for (const [id, value, flags] of [
    [1n, 1, START],
    [2n, 5, START],
    [1n, 2, {}],
    [2n, 6, END],
    [1n, 3, START],
    [1n, 4, END],
    [2n, 7, BOTH],
  ] as const) {
    sums.push(...(await answers([send(id, value, flags)])));
  }
  assert.deepEqual(sums, [101, 105, 103, 111, 103, 107, 107]);
});

test("SequenceScheduler gives rows without a request no sequence's state", async () => {
  const { send, instance } = adding(stateConfig([1], false));
  await answers([send(1n, 1, START)]);
  await answers([send(2n, 2, START)]);
  assert.deepEqual(await answers([send(1n, 3, END)]), [104]);
  assert.deepEqual(instance.batches, [["1+100"], ["0+0", "2+100"], ["3+101", "0+0"]]);
});

for (const [isDeclared, outputs, names] of [
  [false, [], ["Y"]],
  [true, [], ["Y", "S_OUT"]],
  [true, ["Y"], ["Y"]],
] as const) {
  test(`SequenceScheduler answers with ${names} when the state is ${isDeclared ? "an" : "no"} output and [${outputs}] is asked for`, async () => {
    const { send } = adding(stateConfig([1], isDeclared));
    const [response] = await collect(send(1n, 1, { start: true, outputs }).stream);
    assert.deepEqual(
      response?.outputs.map(({ name }) => name),
      names,
    );
    assert.deepEqual(await answers([send(1n, 1, { outputs })]), [102]);
  });
}

test("SequenceScheduler does not mix states of different shapes in a batch", async () => {
  const { send, instance } = adding(stateConfig([-1], false));
  await answers([send(1n, 1, START)]);
  const batches: string[][] = [];
  instance.execute = async (batch) => {
    batches.push(batch.requests.map(({ request }) => `${rowText(request)} [${request.inputs.at(-1)?.shape}]`));
    for (const request of batch.requests) {
      request.respond({ outputs: [int32("Y", [1, 1], [0]), int32("S_OUT", [1, 2], [0, 0])], final: true });
    }
    await sleep(1);
  };
  const sent = [send(1n, 2), send(2n, 3, START), send(3n, 4, START), send(1n, 5)];
  assert.deepEqual(await answers(sent), [0, 0, 0, 0]);
  assert.deepEqual(batches, [
    ["1:2 [1,1]", "2:S3 [1,1]", "3:S4 [1,1]"],
    ["1:5 [1,2]", "- [1,2]", "- [1,2]"],
  ]);
});
