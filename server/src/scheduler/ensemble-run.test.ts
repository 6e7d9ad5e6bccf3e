import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fakeConfig, fakeInput, fakeOutput } from "../../../tests/fakes/model-config.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../tests/fakes/requests.ts";
import type { InferRequest } from "../core/infer-request.ts";
import { NO_PARAMETERS } from "../core/infer-request.ts";
import type { InferResponse } from "../core/infer-response.ts";
import type { ModelConfig } from "../core/model-config.ts";
import { type ModelSignature, signatureOf } from "../core/model-signature.ts";
import { ResponseStream } from "../core/response-stream.ts";
import { ServerError } from "../core/server-error.ts";
import type { Tensor } from "../core/tensor.ts";
import { planEnsemble } from "./ensemble-plan.ts";
import type { ComposingModel } from "./ensemble-run.ts";
import { EnsembleScheduler } from "./ensemble-scheduler.ts";
import { StatisticsCounter } from "./model-statistics.ts";
import { ScheduledRequest } from "./scheduled-request.ts";

type Answer = (
  request: InferRequest,
  send: (outputs: readonly Tensor[], final: boolean) => void,
) => void | Promise<void>;

/** A model as an ensemble sees it, answering by a function. */
function model(
  name: string,
  inputs: readonly string[],
  outputs: readonly string[],
  answer: Answer,
  maxBatchSize = 4,
): ComposingModel {
  const config = fakeConfig({
    name,
    max_batch_size: maxBatchSize,
    input: inputs.map((input) => fakeInput(input, [-1])),
    output: outputs.map((output) => fakeOutput(output, [-1])),
  });
  const signature: ModelSignature = signatureOf(config);
  return {
    signature,
    submit(request) {
      const stream = new ResponseStream();
      const send = (tensors: readonly Tensor[], final: boolean): void => {
        const response: InferResponse = {
          modelName: name,
          modelVersion: "1",
          id: request.id,
          parameters: NO_PARAMETERS,
          outputs: tensors,
          final,
          empty: final && tensors.length === 0,
        };
        stream.push(response);
      };
      void Promise.resolve(answer(request, send)).catch((error: unknown) => stream.fail(ServerError.from(error)));
      return stream;
    },
  };
}

interface StepSpec {
  readonly model: string;
  readonly inputs: Readonly<Record<string, string>>;
  readonly outputs: Readonly<Record<string, string>>;
}

function ensemble(
  steps: readonly StepSpec[],
  models: Readonly<Record<string, ComposingModel>>,
  options: { outputs: readonly string[]; decoupled?: readonly string[]; maxBatchSize?: number },
) {
  const config: ModelConfig = fakeConfig({
    name: "e",
    max_batch_size: options.maxBatchSize ?? 4,
    input: [fakeInput("IN", [-1])],
    output: options.outputs.map((name) => fakeOutput(name, [-1])),
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
  const signature = signatureOf(config);
  const statistics = new StatisticsCounter();
  const scheduler = new EnsembleScheduler({
    plan: planEnsemble(config, (name) => options.decoupled?.includes(name) ?? false),
    signature,
    statistics,
    model: (step) => {
      const found = models[step.modelName];
      if (found === undefined) throw new ServerError("unavailable", `no '${step.modelName}'`);
      return found;
    },
  });
  const context = {
    signature,
    version: "1",
    statistics,
    decoupled: options.decoupled !== undefined,
    reshapesOutputs: false,
  };
  const run = (values: readonly number[], changes: Partial<InferRequest> = {}) => {
    const shape = (options.maxBatchSize ?? 4) > 0 ? [1, values.length] : [values.length];
    const scheduled = new ScheduledRequest(fakeRequest([int32("IN", shape, values)], changes), 1, context);
    scheduler.enqueue(scheduled);
    return collect(scheduled.stream);
  };
  return { run, statistics, scheduler };
}

const plus =
  (amount: number): Answer =>
  (request, send) => {
    const values = int32Values(request.inputs[0]).map((value) => value + amount);
    send([int32("Y", request.inputs[0]?.shape ?? [], values)], true);
  };

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

test("the first failure of a step ends the ensemble once, cancels the others and names the ensemble", async () => {
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
  assert.equal(statistics.failures.OTHER, 1);
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
