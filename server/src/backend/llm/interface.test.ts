/** Every input and output of the engine model's template, on the example model: what each does, or the words that refuse it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Tensor } from "../../core/tensor.ts";
import {
  type Answer,
  ask,
  CONFIG,
  filled,
  GREEDY,
  NUM_TOKENS,
  numbersOf,
  OUTPUTS,
  PROMPT,
} from "./interface.test-support.ts";
import { CASES } from "./interface-cases.test-support.ts";
import { call, int32, prompt, serve } from "./llm.test-support.ts";

test("every input of the engine's template does what it says, or is refused by name", async (t) => {
  const { instance } = await serve(t, filled, {});
  const again = async (inputs: readonly Tensor[]): Promise<Answer> => {
    const answer = await ask(instance, inputs);
    return typeof answer === "string" ? assert.fail(answer) : answer;
  };
  for (const [names, inputs, expected] of CASES) {
    await t.test(`${names}${expected instanceof RegExp ? ` is refused: ${expected.source}` : ""}`, async () => {
      const answer = await ask(instance, inputs);
      if (expected instanceof RegExp) return assert.match(String(answer), expected);
      if (typeof answer === "string") return assert.fail(answer);
      return expected(answer, again);
    });
  }
});

test("the cases leave out no input of the engine's template", () => {
  const covered = new Set(CASES.flatMap(([names]) => names.split(" ")));
  assert.deepEqual(
    CONFIG.input.map(({ name }) => name).filter((name) => !covered.has(name)),
    [],
  );
});

test("every output of the engine's template is given when nothing was asked for, with zeros where nothing is known", async (t) => {
  const { instance } = await serve(t, filled, {});
  const answer = await ask(instance, prompt(PROMPT, NUM_TOKENS));
  assert.ok(typeof answer !== "string");
  assert.deepEqual(answer.ids, GREEDY);
  assert.deepEqual(
    answer.responses[0]?.outputs.map(({ name }) => name),
    OUTPUTS,
  );
  const known = ["output_ids", "sequence_length"];
  for (const output of OUTPUTS) {
    assert.equal(
      answer.numbers(output).some((value) => value !== 0),
      known.includes(output),
      output,
    );
  }
});

test("a batch has its rows answered one by one, by their index", async (t) => {
  const { instance } = await serve(t, filled, {});
  const inputs = [
    int32("input_ids", [2, 2], 5, 6, 7, 8),
    int32("input_lengths", [2], 2, 2),
    int32("request_output_len", [2], 1, 1),
    int32("num_return_sequences", [2], 2, 2),
  ];
  const { responses, ended } = call(instance, inputs, { outputNames: OUTPUTS, batchSize: 2 });
  assert.equal(await ended, undefined);
  const indices = responses.map(({ outputs }) =>
    ["batch_index", "sequence_index"].flatMap((name) => {
      const tensor = outputs.find((output) => output.name === name);
      return tensor === undefined ? [] : numbersOf(tensor);
    }),
  );
  assert.deepEqual(indices.map(String).sort(), ["0,0", "0,1", "1,0", "1,1"]);
});
