/** One executor of an OpenVINO model: a batch of requests in, a response for each out. */
import { ServerError } from "../../core/server-error.ts";
import { byteSize, type Tensor } from "../../core/tensor.ts";
import { OpenvinoError } from "../../native/openvino/api.ts";
import type { OpenvinoRequest } from "../../native/openvino/request.ts";
import type { Batch, ModelInstance } from "../backend.ts";
import { joinRequests, splitRows } from "../native-run/batch-rows.ts";
import type { NativeRunner } from "../native-run/native-runner.ts";
import { runBatch, type StartedRun } from "../native-run/run-batch.ts";

export interface OpenvinoInstanceContext {
  readonly request: OpenvinoRequest;
  readonly runner: NativeRunner;
  /** In the order of the model's inputs. */
  readonly inputNames: readonly string[];
  readonly isBatching: boolean;
  /** Rows of each batch that the model takes; undefined: any number. */
  readonly fixedRows: number | undefined;
  /** Smaller batches are filled up with zeros. */
  readonly padsBatches: boolean;
}

export class OpenvinoInstance implements ModelInstance {
  readonly name: string;
  readonly #context: OpenvinoInstanceContext;

  constructor(name: string, context: OpenvinoInstanceContext) {
    this.name = name;
    this.#context = context;
  }

  execute(batch: Batch): Promise<void> | undefined {
    const start = (): StartedRun<Tensor> => {
      const inputs = this.#ordered(joinRequests(batch.requests), batch.batchSize);
      batch.computeStarted();
      const { request, runner } = this.#context;
      const outputs = runner.run({
        inputBytes: inputs.reduce((sum, { data }) => sum + data.byteLength, 0),
        runSync: () => request.run(inputs),
        runAsync: () => request.runAsync(inputs),
      });
      return { outputs, answer: (tensors) => this.#answer(batch, tensors) };
    };
    return runBatch(start, (error) => this.#fail(batch, error));
  }

  isReady(): boolean {
    return true;
  }

  async close(): Promise<void> {
    this.#context.request.close();
  }

  #ordered(inputs: readonly Tensor[], batchSize: number): Tensor[] {
    const { inputNames, fixedRows, padsBatches, isBatching } = this.#context;
    const ordered = inputNames.map((name) => {
      const input = inputs.find((candidate) => candidate.name === name);
      if (input !== undefined) return input;
      throw new ServerError("internal", `input '${name}' is missing`, { reason: "BACKEND" });
    });
    if (!isBatching || fixedRows === undefined || batchSize === fixedRows) return ordered;
    if (batchSize < fixedRows && padsBatches) return ordered.map((input) => withRows(input, fixedRows));
    const text =
      `the model takes batches of ${fixedRows} rows, got ${batchSize}: set the parameter ENABLE_BATCH_PADDING to YES, ` +
      "or leave SKIP_OV_DYNAMIC_BATCHSIZE out";
    throw new ServerError("unsupported", text, { reason: "BACKEND" });
  }

  #answer(batch: Batch, tensors: readonly Tensor[]): void {
    batch.computeEnded();
    const { isBatching, fixedRows } = this.#context;
    const isPadded = isBatching && fixedRows !== undefined && batch.batchSize < fixedRows;
    const outputs = isPadded ? tensors.map((tensor) => firstRows(tensor, batch.batchSize)) : tensors;
    const shares = splitRows(batch.requests, outputs);
    for (const [index, request] of batch.requests.entries()) {
      request.respond({ outputs: shares[index] ?? [], final: true });
    }
  }

  /** Unexpected errors go on to the scheduler, which logs them and fails the batch. */
  #fail(batch: Batch, error: unknown): void {
    if (!(error instanceof ServerError || error instanceof OpenvinoError)) throw error;
    const answer =
      error instanceof ServerError
        ? error
        : new ServerError("internal", `openvino error: ${error.message}`, { cause: error, reason: "BACKEND" });
    for (const request of batch.requests) request.fail(answer);
  }
}

function withRows(tensor: Tensor, rows: number): Tensor {
  const shape = [rows, ...tensor.shape.slice(1)];
  const data = new Uint8Array(byteSize(tensor.datatype, shape) ?? 0);
  data.set(tensor.data);
  return { ...tensor, shape, data };
}

function firstRows(tensor: Tensor, rows: number): Tensor {
  const shape = [rows, ...tensor.shape.slice(1)];
  return { ...tensor, shape, data: tensor.data.subarray(0, byteSize(tensor.datatype, shape) ?? 0) };
}
