/**
 * A request and its steps as the log tells them at verbose level 2, in Triton's words without its addresses.
 * Source: triton-inference-server/core, infer_request.cc, `operator<<` and `SetState`.
 */
import type { InferRequest } from "../core/infer-request.ts";
import { requestPrefix } from "../core/validate-request.ts";

const SEQUENCE_START = 1;
const SEQUENCE_END = 2;

/** As the model will see it. `batchSize` rows; 0: the model does not batch. */
export interface PreparedRequest {
  readonly original: InferRequest;
  /** After reshape. */
  readonly inputs: InferRequest["inputs"];
  readonly version: string;
  readonly batchSize: number;
  /** Names of the outputs that the model is asked for. */
  readonly outputNames: readonly string[];
}

/** Several lines, the first with everything but tensors. */
export function describePrepared({ original, inputs, version, batchSize, outputNames }: PreparedRequest): string {
  const { id, modelName, modelVersion, sequence, priority, timeoutUs } = original;
  const flags = (sequence.start ? SEQUENCE_START : 0) | (sequence.end ? SEQUENCE_END : 0);
  const facts = [
    `request id: ${id}`,
    `model: ${modelName}`,
    `requested version: ${modelVersion === "" ? -1 : modelVersion}`,
    `actual version: ${version}`,
    `flags: 0x${flags.toString(16)}`,
    `correlation id: ${sequence.id}`,
    `batch size: ${batchSize}`,
    `priority: ${priority}`,
    `timeout (us): ${timeoutUs}`,
  ];
  const lines = inputs.map(({ name, datatype, shape }, i) => {
    const whole = shape.join(",");
    const own = batchSize > 0 ? shape.slice(1).join(",") : whole;
    const given = original.inputs[i]?.shape.join(",") ?? "";
    return `input: ${name}, type: ${datatype}, original shape: [${given}], batch + shape: [${whole}], shape: [${own}]`;
  });
  const wanted = ["original requested outputs:", ...original.outputs, "requested outputs:", ...outputNames];
  return [`${requestPrefix(original)}prepared: ${facts.join(", ")}`, "inputs:", ...lines, ...wanted].join("\n");
}

export type RequestState = "INITIALIZED" | "PENDING" | "EXECUTING" | "RELEASED";

export function describeStep(request: Pick<InferRequest, "id">, from: RequestState, to: RequestState): string {
  return `${requestPrefix(request)}Setting state from ${from} to ${to}`;
}
