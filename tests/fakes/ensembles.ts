/** Models and ensembles of functions, for tests of the dataflow. */

import type { InferRequest } from "../../server/src/core/infer-request.ts";
import { NO_PARAMETERS } from "../../server/src/core/infer-request.ts";
import type { InferResponse } from "../../server/src/core/infer-response.ts";
import type { ModelConfig } from "../../server/src/core/model-config.ts";
import { type ModelSignature, signatureOf } from "../../server/src/core/model-signature.ts";
import { ResponseStream } from "../../server/src/core/response-stream.ts";
import { ServerError } from "../../server/src/core/server-error.ts";
import type { Tensor } from "../../server/src/core/tensor.ts";
import { planEnsemble } from "../../server/src/scheduler/ensemble/ensemble-plan.ts";
import type { ComposingModel } from "../../server/src/scheduler/ensemble/ensemble-run.ts";
import { EnsembleScheduler } from "../../server/src/scheduler/ensemble/ensemble-scheduler.ts";
import { StatisticsCounter } from "../../server/src/scheduler/model-statistics.ts";
import { ScheduledRequest } from "../../server/src/scheduler/scheduled-request.ts";
import { fakeConfig, fakeInput, fakeOutput } from "./model-config.ts";
import { collect, fakeRequest, int32, int32Values } from "./requests.ts";

export type Answer = (
  request: InferRequest,
  send: (outputs: readonly Tensor[], final: boolean) => void,
) => void | Promise<void>;

/** A model as an ensemble sees it, answering by a function. */
export function model(
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

export interface StepSpec {
  readonly model: string;
  readonly inputs: Readonly<Record<string, string>>;
  readonly outputs: Readonly<Record<string, string>>;
}

export function ensemble(
  steps: readonly StepSpec[],
  models: Readonly<Record<string, ComposingModel>>,
  options: {
    outputs: readonly string[];
    decoupled?: readonly string[];
    maxBatchSize?: number;
    maxInFlight?: number;
    maxWaitMs?: number;
  },
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
      max_inflight_requests: options.maxInFlight ?? 0,
    },
  });
  const signature = signatureOf(config);
  const statistics = new StatisticsCounter();
  const scheduler = new EnsembleScheduler({
    plan: planEnsemble(config, (name) => options.decoupled?.includes(name) ?? false),
    signature,
    statistics,
    ...(options.maxWaitMs === undefined ? {} : { maxWaitMs: options.maxWaitMs }),
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
  const stream = (values: readonly number[], changes: Partial<InferRequest> = {}) => {
    const shape = (options.maxBatchSize ?? 4) > 0 ? [1, values.length] : [values.length];
    const scheduled = new ScheduledRequest(fakeRequest([int32("IN", shape, values)], changes), 1, context);
    scheduler.enqueue(scheduled);
    return scheduled.stream;
  };
  const run = (values: readonly number[], changes: Partial<InferRequest> = {}) => collect(stream(values, changes));
  return { run, stream, statistics, scheduler };
}

export const plus =
  (amount: number): Answer =>
  (request, send) => {
    const values = int32Values(request.inputs[0]).map((value) => value + amount);
    send([int32("Y", request.inputs[0]?.shape ?? [], values)], true);
  };
