import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ensemble, model, plus, type StepSpec } from "../../../../tests/fakes/ensembles.ts";
import { fakeConfig } from "../../../../tests/fakes/model-config.ts";
import { int32, int32Values } from "../../../../tests/fakes/requests.ts";
import { ServerError } from "../../core/server-error.ts";
import { planEnsemble } from "./ensemble-plan.ts";

test("an ensemble runs its steps as a dataflow and answers once", async () => {
  const models = { add1: model("add1", ["X"], ["Y"], plus(1)), add10: model("add10", ["X"], ["Y"], plus(10)) };
  const steps = [
    { model: "add10", inputs: { X: "mid" }, outputs: { Y: "OUT" } },
    { model: "add1", inputs: { X: "IN" }, outputs: { Y: "mid" } },
  ];
  const { run, statistics } = ensemble(steps, models, { outputs: ["OUT"] });
  const [response, ...more] = await run([1, 2]);
  assert.deepEqual(int32Values(response?.outputs[0]), [12, 13]);
  assert.deepEqual([response?.final, more.length], [true, 0]);
  assert.deepEqual(
    [...(response?.parameters ?? [])],
    [
      ["sequence_id", 0],
      ["sequence_start", false],
      ["sequence_end", false],
    ],
  );
  const counted = statistics.snapshot("e", "1");
  assert.deepEqual(
    [counted.inference_stats.success.count, counted.execution_count, counted.inference_count],
    [1, 1, 1],
  );
});

test("an ensemble leaves out the steps that nobody asked for", async () => {
  let asked = 0;
  const models = {
    wanted: model("wanted", ["X"], ["Y"], plus(1)),
    idle: model("idle", ["X"], ["Y"], () => {
      asked += 1;
    }),
  };
  const steps = [
    { model: "wanted", inputs: { X: "IN" }, outputs: { Y: "A" } },
    { model: "idle", inputs: { X: "IN" }, outputs: { Y: "B" } },
  ];
  const { run } = ensemble(steps, models, { outputs: ["A", "B"] });
  const [response] = await run([1], { outputs: ["A"] });
  assert.deepEqual(
    response?.outputs.map(({ name }) => name),
    ["A"],
  );
  assert.equal(asked, 0);
});

test("responses of a decoupled step pass downstream one by one and leave in order, the last one final", async () => {
  const models = {
    stream: model("stream", ["X"], ["Y"], (request, send) => {
      const values = int32Values(request.inputs[0]);
      for (const [i, value] of values.entries()) send([int32("Y", [1, 1], [value])], i === values.length - 1);
    }),
    slow: model("slow", ["X"], ["Y"], async (request, send) => {
      const [value = 0] = int32Values(request.inputs[0]);
      await sleep(10 - value); // later ones are faster
      send([int32("Y", [1, 1], [value * 2])], true);
    }),
  };
  const steps = [
    { model: "stream", inputs: { X: "IN" }, outputs: { Y: "t" } },
    { model: "slow", inputs: { X: "t" }, outputs: { Y: "OUT" } },
  ];
  const { run } = ensemble(steps, models, { outputs: ["OUT"], decoupled: ["stream"] });
  const responses = await run([1, 5, 9]);
  assert.deepEqual(
    responses.map(({ outputs }) => int32Values(outputs[0])[0]),
    [2, 10, 18],
  );
  assert.deepEqual(
    responses.map(({ final }) => final),
    [false, false, true],
  );
});

test("the steps behind a stream know which response is the last", async () => {
  const seen: boolean[] = [];
  const keys = new Set<object>();
  const models = {
    stream: model("stream", ["X"], ["Y"], (_, send) => {
      for (const final of [false, false, true]) send([int32("Y", [1, 1], [7])], final);
    }),
    look: model("look", ["X"], ["Y"], (request, send) => {
      seen.push(request.origin.isLast);
      keys.add(request.origin.key);
      send([int32("Y", [1, 1], [0])], true);
    }),
  };
  const steps = [
    { model: "stream", inputs: { X: "IN" }, outputs: { Y: "t" } },
    { model: "look", inputs: { X: "t" }, outputs: { Y: "OUT" } },
  ];
  const key = {};
  await ensemble(steps, models, { outputs: ["OUT"], decoupled: ["stream"] }).run([1], {
    origin: { key, isLast: true },
  });
  assert.deepEqual(seen, [false, false, true]);
  assert.deepEqual([...keys], [key]);
});

test("a stream that ends by a flag alone ends the ensemble with an empty final response", async () => {
  const models = {
    stream: model("stream", ["X"], ["Y"], (_, send) => {
      send([int32("Y", [1, 1], [1])], false);
      send([], true);
    }),
  };
  const steps = [{ model: "stream", inputs: { X: "IN" }, outputs: { Y: "OUT" } }];
  const { run } = ensemble(steps, models, { outputs: ["OUT"], decoupled: ["stream"] });
  const responses = await run([1]);
  assert.deepEqual(
    responses.map(({ empty, final }) => [empty, final]),
    [
      [false, false],
      [true, true],
    ],
  );
});

test("a stream that ends by a flag alone has its last data marked final, when that is still on its way", async () => {
  const stream = model("stream", ["X"], ["Y"], (request, send) => {
    for (const value of int32Values(request.inputs[0])) send([int32("Y", [1, 1], [value])], false);
    send([], true);
  });
  const slow = model("slow", ["X"], ["Y"], async (request, send) => {
    await sleep(10 - (int32Values(request.inputs[0])[0] ?? 0)); // later ones are faster
    await plus(1)(request, send);
  });
  const steps = [
    { model: "stream", inputs: { X: "IN" }, outputs: { Y: "t" } },
    { model: "slow", inputs: { X: "t" }, outputs: { Y: "u" } },
    { model: "slow", inputs: { X: "u" }, outputs: { Y: "OUT" } },
  ];
  for (const maxInFlight of [0, 1, 2]) {
    const { run } = ensemble(steps, { stream, slow }, { outputs: ["OUT"], decoupled: ["stream"], maxInFlight });
    const responses = await run([1, 3, 5, 7]);
    assert.deepEqual(
      responses.map(({ outputs, final, empty }) => [outputs.flatMap(int32Values), final, empty]),
      [3, 5, 7, 9].map((value) => [[value], value === 9, false]),
    );
  }
});

test("a step fed by a stream and by the request waits for both in every iteration", async () => {
  const models = {
    stream: model("stream", ["X"], ["Y"], (_, send) => {
      for (const value of [1, 2]) send([int32("Y", [1, 1], [value])], value === 2);
    }),
    side: model("side", ["X"], ["Y"], async (request, send) => {
      await sleep(5);
      plus(100)(request, send);
    }),
    sum: model("sum", ["A", "B"], ["Y"], (request, send) => {
      const [a = 0, b = 0] = request.inputs.map((input) => int32Values(input)[0]);
      send([int32("Y", [1, 1], [a + b])], true);
    }),
  };
  const steps = [
    { model: "stream", inputs: { X: "IN" }, outputs: { Y: "t" } },
    { model: "side", inputs: { X: "IN" }, outputs: { Y: "s" } },
    { model: "sum", inputs: { A: "t", B: "s" }, outputs: { Y: "OUT" } },
  ];
  const { run } = ensemble(steps, models, { outputs: ["OUT"], decoupled: ["stream"] });
  const responses = await run([1]);
  assert.deepEqual(
    responses.map(({ outputs }) => int32Values(outputs[0])[0]),
    [102, 103],
  );
  assert.deepEqual(
    responses.map(({ final }) => final),
    [false, true],
  );
});

test("an ensemble without batching lends its steps a batch dimension and takes it back", async () => {
  let shape: readonly number[] = [];
  const models = {
    add1: model("add1", ["X"], ["Y"], (request, send) => {
      shape = request.inputs[0]?.shape ?? [];
      return plus(1)(request, send);
    }),
  };
  const steps = [{ model: "add1", inputs: { X: "IN" }, outputs: { Y: "OUT" } }];
  const [response] = await ensemble(steps, models, { outputs: ["OUT"], maxBatchSize: 0 }).run([1, 2, 3]);
  assert.deepEqual(shape, [1, 3]);
  assert.deepEqual(response?.outputs[0]?.shape, [3]);
});

for (const [batches, expected] of [
  [4, [2]],
  [0, [1, 2]],
] as const) {
  test(`a batching ensemble gives an output [2] of a model with max_batch_size ${batches} as [${expected}]`, async () => {
    const flat = model("flat", ["X"], ["Y"], (_, send) => send([int32("Y", [2], [7, 8])], true), batches);
    const steps = [{ model: "flat", inputs: { X: "IN" }, outputs: { Y: "OUT" } }];
    const [response] = await ensemble(steps, { flat }, { outputs: ["OUT"], maxBatchSize: 4 }).run([1]);
    assert.deepEqual(response?.outputs[0]?.shape, expected);
  });
}

test("the first failure of a step ends the ensemble, cancels the others, counts twice and names the ensemble", async () => {
  let cancelled = false;
  const models = {
    bad: model("bad", ["X"], ["Y"], () => {
      throw new ServerError("unavailable", "no luck");
    }),
    long: model("long", ["X"], ["Y"], (request, send) => {
      request.signal.addEventListener("abort", () => {
        cancelled = true;
        send([], true);
      });
    }),
  };
  const steps = [
    { model: "long", inputs: { X: "IN" }, outputs: { Y: "A" } },
    { model: "bad", inputs: { X: "IN" }, outputs: { Y: "B" } },
  ];
  const { run, statistics, scheduler } = ensemble(steps, models, { outputs: ["A", "B"] });
  await assert.rejects(run([1]), { code: "unavailable", message: "in ensemble 'e', no luck" });
  await scheduler.drain();
  assert.equal(cancelled, true);
  assert.equal(statistics.failures.OTHER, 2);
});

test("a client that leaves cancels the running steps", async () => {
  const gone = new AbortController();
  const models = {
    long: model(
      "long",
      ["X"],
      ["Y"],
      (request) =>
        new Promise((_, reject) => {
          request.signal.addEventListener("abort", () => reject(new ServerError("cancelled", "stopped")));
        }),
    ),
  };
  const steps = [{ model: "long", inputs: { X: "IN" }, outputs: { Y: "OUT" } }];
  const { run, statistics } = ensemble(steps, models, { outputs: ["OUT"] });
  const running = run([1], { signal: gone.signal });
  gone.abort();
  await assert.rejects(running, { code: "cancelled" });
  assert.equal(statistics.failures.CANCELED, 1);
});

test("planEnsemble() refuses cycles and joins of two streams", () => {
  const config = (steps: readonly StepSpec[]) =>
    fakeConfig({
      name: "e",
      ensemble_scheduling: {
        step: steps.map((step) => ({
          model_name: step.model,
          model_version: -1,
          input_map: step.inputs,
          output_map: step.outputs,
          model_namespace: "",
        })),
        max_inflight_requests: 0,
      },
    });
  const cycle = config([
    { model: "a", inputs: { X: "u" }, outputs: { Y: "v" } },
    { model: "b", inputs: { X: "v" }, outputs: { Y: "u" } },
  ]);
  assert.throws(() => planEnsemble(cycle, () => false), /cycle/);
  const join = config([
    { model: "a", inputs: { X: "IN" }, outputs: { Y: "u" } },
    { model: "b", inputs: { X: "IN" }, outputs: { Y: "v" } },
    { model: "c", inputs: { X: "u", Z: "v" }, outputs: { Y: "OUT" } },
  ]);
  assert.throws(() => planEnsemble(join, (name) => name !== "c"), /different decoupled models/);
  assert.equal(planEnsemble(join, (name) => name === "a").steps[2]?.origin, 0);
});
