/** One executor of a tree model: a batch of requests in, a response for each out. */
import { ServerError } from "../../core/server-error.ts";
import { elementCount, type Tensor } from "../../core/tensor.ts";
import { type Forest, ForestError, type ForestInfo, type ForestRows } from "../../native/trees/forest.ts";
import type { Batch, ModelInstance } from "../backend.ts";
import { joinRequests, splitRows } from "../native-run/batch-rows.ts";
import type { NativeRunner } from "../native-run/native-runner.ts";
import { runBatch, type StartedRun } from "../native-run/run-batch.ts";
import { toAnswer } from "./class-outputs.ts";
import type { FilSettings } from "./fil-settings.ts";
import { INPUT, type PlannedOutput } from "./forest-tensors.ts";

const FLOAT_BYTES = 4;

export interface FilInstanceContext {
  readonly forest: Forest;
  readonly runner: NativeRunner;
  readonly info: ForestInfo;
  readonly settings: FilSettings;
  readonly outputs: readonly PlannedOutput[];
}

export class FilInstance implements ModelInstance {
  readonly name: string;
  readonly #context: FilInstanceContext;

  constructor(name: string, context: FilInstanceContext) {
    this.name = name;
    this.#context = context;
  }

  execute(batch: Batch): Promise<void> | undefined {
    const start = (): StartedRun<Float32Array> => {
      const rows = this.#rowsOf(joinRequests(batch.requests));
      const planned = this.#wanted(batch);
      batch.computeStarted();
      return {
        outputs: this.#run(rows, planned),
        answer: (results) => this.#answer(batch, rows, planned, results),
      };
    };
    return runBatch(start, (error) => this.#fail(batch, error));
  }

  isReady(): boolean {
    return true;
  }

  async close(): Promise<void> {
    this.#context.forest.close();
  }

  #run(rows: ForestRows, planned: readonly PlannedOutput[]): Float32Array[] | Promise<Float32Array[]> {
    const { forest, runner } = this.#context;
    return runner.run({
      inputBytes: rows.values.byteLength,
      runSync: () => planned.map(({ kind }) => forest.predict(rows, kind)),
      runAsync: async () => {
        const results: Float32Array[] = [];
        for (const { kind } of planned) results.push(await forest.predictAsync(rows, kind));
        return results;
      },
    });
  }

  /** A view of the request's bytes, where they are aligned. */
  #rowsOf(inputs: readonly Tensor[]): ForestRows {
    const input = inputs.find(({ name }) => name === INPUT);
    if (input === undefined) throw new ServerError("internal", `input '${INPUT}' is missing`, { reason: "BACKEND" });
    const { numFeatures } = this.#context.info;
    const columns = input.shape.at(-1);
    if (columns !== numFeatures) {
      const text = `input '${INPUT}' has ${columns ?? 0} columns, the model has ${numFeatures} features`;
      throw new ServerError("invalid_argument", text, { reason: "BACKEND" });
    }
    const { buffer, byteOffset } = input.data;
    const count = elementCount(input.shape);
    const values =
      byteOffset % FLOAT_BYTES === 0
        ? new Float32Array(buffer, byteOffset, count)
        : new Float32Array(Uint8Array.from(input.data).buffer, 0, count);
    return { values, numRows: count / numFeatures };
  }

  #wanted({ requests }: Batch): readonly PlannedOutput[] {
    const { outputs } = this.#context;
    return outputs.filter(({ name }) =>
      requests.some(({ outputNames }) => outputNames.length === 0 || outputNames.includes(name)),
    );
  }

  #answer(batch: Batch, { numRows }: ForestRows, planned: readonly PlannedOutput[], results: Float32Array[]): void {
    batch.computeEnded();
    const { settings, info } = this.#context;
    const tensors = planned.map(({ name, kind, width, rowShape }, index): Tensor => {
      const values = results[index] ?? new Float32Array(0);
      const answer = kind === "values" ? toAnswer(values, { ...settings, ...info, width }) : values;
      const data = new Uint8Array(answer.buffer, answer.byteOffset, answer.byteLength);
      return { name, datatype: "FP32", shape: [numRows, ...rowShape], data };
    });
    const shares = splitRows(batch.requests, tensors);
    for (const [index, request] of batch.requests.entries()) {
      request.respond({ outputs: shares[index] ?? [], final: true });
    }
  }

  /** Unexpected errors go on to the scheduler, which logs them and fails the batch. */
  #fail(batch: Batch, error: unknown): void {
    if (!(error instanceof ServerError || error instanceof ForestError)) throw error;
    const answer =
      error instanceof ServerError
        ? error
        : new ServerError("internal", error.message, { cause: error, reason: "BACKEND" });
    for (const request of batch.requests) request.fail(answer);
  }
}
