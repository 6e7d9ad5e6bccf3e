/** Runs a request of one row in the call on an instance that can, and counts it as any other (Triton's statistics extension). */
import type { ModelInstance } from "../backend/backend.ts";
import type { InferRequest } from "../core/infer-request.ts";
import { ServerError } from "../core/server-error.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Clock } from "./clock.ts";
import type { ExecutionTiming } from "./execution-timing.ts";
import type { StatisticsCounter } from "./model-statistics.ts";

export interface AnswerNowOptions {
  readonly statistics: StatisticsCounter;
  readonly clock: Clock;
  readonly onTiming: (timing: ExecutionTiming) => void;
}

/** Undefined: the instance needs a whole request. @throws ServerError of the model */
export function answerNow(
  instance: ModelInstance,
  request: Pick<InferRequest, "inputs" | "origin">,
  { statistics, clock, onTiming }: AnswerNowOptions,
): readonly Tensor[] | undefined {
  if (instance.answerNow === undefined) return undefined;
  const startMs = clock.nowMs();
  statistics.accepted();
  statistics.dequeued();
  try {
    const outputs = instance.answerNow(request);
    const endMs = clock.nowMs();
    const timing = { startMs, computeStartMs: startMs, computeEndMs: endMs, endMs };
    statistics.latencies?.firstResponse(endMs - startMs);
    statistics.executed(1, timing);
    statistics.succeeded(1, endMs - startMs, 0, timing);
    onTiming(timing);
    return outputs;
  } catch (thrown) {
    const error = ServerError.from(thrown);
    statistics.failed(error.reason, clock.nowMs() - startMs);
    throw error;
  }
}
