/** One executor of an ONNX model: a batch of requests in, a response for each out. */
import { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { ValueInfo } from "../../native/onnxruntime/info.ts";
import { OnnxRuntimeError } from "../../native/onnxruntime/status.ts";
import type { Batch, ModelInstance } from "../backend.ts";
import { runBatch, type StartedRun } from "../native-run/run-batch.ts";
import { joinInputs } from "./batch-inputs.ts";
import { splitOutputs } from "./batch-outputs.ts";
import type { ModelRunner } from "./model-runner.ts";
import type { ShapeProfile } from "./plan-model.ts";
import type { RaggedPlan } from "./ragged-batch.ts";

export interface OnnxInstanceContext {
  readonly runner: ModelRunner;
  readonly modelName: string;
  /** Everything the model may be given, by name. */
  readonly inputs: ReadonlyMap<string, ValueInfo>;
  /** Shapes of the model's scalar outputs as the configuration has them: it cannot say "no dimension". */
  readonly scalarShapes: ReadonlyMap<string, readonly number[]>;
  readonly hasBatchDimension: boolean;
  readonly ragged: RaggedPlan;
  /** The shapes that the model was made for, when it says so. */
  readonly profile: ShapeProfile | undefined;
}

export class OnnxInstance implements ModelInstance {
  readonly name: string;
  readonly #context: OnnxInstanceContext;

  constructor(name: string, context: OnnxInstanceContext) {
    this.name = name;
    this.#context = context;
  }

  execute(batch: Batch): Promise<void> | undefined {
    const start = (): StartedRun<Tensor> => {
      this.#expectOneRequest(batch);
      const inputs = joinInputs(batch.requests, this.#context.inputs, this.#context.ragged);
      this.#context.profile?.expectShapes(inputs, this.name);
      const outputNames = this.#outputNames(batch);
      batch.computeStarted();
      const outputs = this.#context.runner.run(inputs, outputNames, () => batch.requests.map(({ request }) => request));
      return { outputs, answer: (tensors) => this.#answer(batch, tensors) };
    };
    return runBatch(start, (error) => this.#fail(batch, error));
  }

  isReady(): boolean {
    return true;
  }

  async close(): Promise<void> {
    // The session belongs to the model: its instances share it.
  }

  /** Without a batch dimension there is nothing to join requests along. */
  #expectOneRequest({ requests }: Batch): void {
    if (requests.length === 1 || this.#context.hasBatchDimension) return;
    throw failure("internal", `batch size ${requests.length} for '${this.#context.modelName}', max allowed is 0`);
  }

  #outputNames({ requests }: Batch): readonly string[] {
    const [first] = requests;
    const names =
      requests.length === 1 && first !== undefined
        ? first.outputNames
        : [...new Set(requests.flatMap(({ outputNames }) => outputNames))];
    for (const name of names) {
      if (!this.#context.runner.hasOutput(name)) throw failure("internal", `output tensor '${name}' is not found`);
    }
    return names;
  }

  #answer(batch: Batch, tensors: readonly Tensor[]): void {
    batch.computeEnded();
    const outputs = tensors.map((tensor) => this.#withConfiguredShape(tensor));
    const { hasBatchDimension, ragged } = this.#context;
    const shares = splitOutputs(batch.requests, outputs, hasBatchDimension, ragged.scattered);
    for (const [index, request] of batch.requests.entries()) {
      request.respond({ outputs: shares[index] ?? [], final: true });
    }
  }

  #withConfiguredShape(tensor: Tensor): Tensor {
    if (tensor.shape.length > 0) return tensor;
    const shape = this.#context.scalarShapes.get(tensor.name);
    return shape === undefined ? tensor : { ...tensor, shape };
  }

  /** Unexpected errors go on to the scheduler, which logs them and fails the batch. */
  #fail(batch: Batch, error: unknown): void {
    if (!(error instanceof ServerError || error instanceof OnnxRuntimeError)) throw error;
    const answer = toServerError(error);
    for (const request of batch.requests) request.fail(answer);
  }
}

/** ONNX Runtime's own words reach the client; what else went wrong does not. */
export function toServerError(error: unknown): ServerError {
  if (error instanceof ServerError) return error;
  if (!(error instanceof OnnxRuntimeError)) return failure("internal", "Internal error", error);
  if (error.isTermination) return new ServerError("cancelled", "request was cancelled", { cause: error });
  return failure("internal", `onnx runtime error ${error.code}: ${error.message}`, error);
}

function failure(code: "internal", message: string, cause?: unknown): ServerError {
  return new ServerError(code, message, { cause, reason: "BACKEND" });
}
