import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { ensemble, model, type StepSpec } from "../../../../tests/fakes/ensembles.ts";
import { int32, int32Values } from "../../../../tests/fakes/requests.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { ComposingModel } from "./ensemble-run.ts";

const STEPS: readonly StepSpec[] = [
  { model: "stream", inputs: { X: "IN" }, outputs: { Y: "t", STAYS: "INDEX" } },
  { model: "behind", inputs: { X: "t" }, outputs: { Y: "OUT" } },
];
const STAYS = int32("STAYS", [1, 1], [5]);

/** Sends a token a turn. */
const stream = model("stream", ["X"], ["Y", "STAYS"], async (request, send) => {
  const values = int32Values(request.inputs[0]);
  for (const [i, value] of values.entries()) {
    await turn();
    send([int32("Y", [1, 1], [value]), STAYS], i === values.length - 1);
  }
});

/** Doubles what it gets, in the call where `canRunNow` says so. */
function doubling(canRunNow: (count: number) => boolean): { behind: ComposingModel; seen: string[] } {
  const seen: string[] = [];
  let count = 0;
  const answer = (inputs: readonly Tensor[]): Tensor[] => {
    const [value = 0] = int32Values(inputs[0]);
    if (value === 13) throw new ServerError("invalid_argument", "no 13");
    return [int32("Y", [1, 1], [value * 2])];
  };
  const long = model("behind", ["X"], ["Y"], (request, send) => {
    seen.push("long");
    send(answer(request.inputs), true);
  });
  const runNow: ComposingModel["runNow"] = (inputs, origin, onTiming) => {
    if (!canRunNow(count++)) return undefined;
    assert.equal(origin.isLast, false);
    seen.push("short");
    onTiming({ startMs: 0, computeStartMs: 0, computeEndMs: 1, endMs: 1 });
    return answer(inputs);
  };
  return { behind: { ...long, signature: long.signature, submit: long.submit.bind(long), runNow }, seen };
}

const WANTED = { outputs: ["OUT", "INDEX"], decoupled: ["stream"] };

test("an ensemble answers streamed responses in the call once two were alike, the last one excepted", async () => {
  const { behind, seen } = doubling(() => true);
  const { run } = ensemble(STEPS, { stream, behind }, WANTED);
  const responses = await run([1, 2, 3, 4, 5]);
  assert.deepEqual(seen, ["long", "short", "short", "short", "long"]);
  for (const [i, { outputs, final }] of responses.entries()) {
    const [index, out] = outputs; // last to first
    assert.deepEqual([index?.name, int32Values(index)], ["INDEX", [5]]);
    assert.deepEqual([out?.name, int32Values(out)], ["OUT", [(i + 1) * 2]]);
    assert.equal(final, i === 4);
  }
});

test("an ensemble keeps the order when the model behind cannot always answer in the call", async () => {
  const { behind, seen } = doubling((count) => count % 2 === 0);
  const { run } = ensemble(STEPS, { stream, behind }, WANTED);
  const values = Array.from({ length: 40 }, (_, i) => i + 20);
  const responses = await run(values);
  assert.deepEqual(
    responses.map(({ outputs }) => int32Values(outputs[1])[0]),
    values.map((value) => 2 * value),
  );
  assert.ok(seen.includes("short") && seen.includes("long"));
});

test("an ensemble fails once when the model behind refuses in the call", async () => {
  const { behind } = doubling(() => true);
  const { run } = ensemble(STEPS, { stream, behind }, WANTED);
  await assert.rejects(run([1, 2, 3, 13, 4]), /in ensemble 'e', no 13/);
});
