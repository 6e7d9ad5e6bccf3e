/** Fakes around the Python backend for its tests: a model folder, a source, a batch. Knows no scheduler. */
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BackendRequest, BackendResponse, Batch, ModelSource } from "../../server/src/backend/backend.ts";
import type { InferRequest } from "../../server/src/core/infer-request.ts";
import { NO_PARAMETERS, NO_SEQUENCE } from "../../server/src/core/infer-request.ts";
import type { ModelConfig } from "../../server/src/core/model-config.ts";
import type { ServerError } from "../../server/src/core/server-error.ts";
import type { Tensor } from "../../server/src/core/tensor.ts";

export const EMPTY_CONFIG: ModelConfig = {
  name: "m",
  platform: "",
  max_batch_size: 0,
  input: [],
  output: [],
  instance_group: [],
  default_model_filename: "",
  cc_model_filenames: {},
  metric_tags: {},
  parameters: {},
  model_warmup: [],
  backend: "python",
  batch_input: [],
  batch_output: [],
  runtime: "",
};

export interface LogLine {
  readonly level: string;
  readonly location: string;
  readonly message: string;
}

export interface TestSource extends ModelSource {
  readonly lines: LogLine[];
}

/** Writes `code` as version 1 of a model into a fresh folder. */
export async function sourceOf(code: string, changes: Partial<ModelSource> = {}): Promise<TestSource> {
  const modelFolder = await mkdtemp(join(tmpdir(), "nereid-python-"));
  const versionFolder = join(modelFolder, "1");
  await mkdir(versionFolder);
  await writeFile(join(versionFolder, "model.py"), code);
  const lines: LogLine[] = [];
  const line =
    (level: string) =>
    (location: string, message: string): void => {
      lines.push({ level, location, message });
    };
  return {
    name: "m",
    version: 1,
    config: EMPTY_CONFIG,
    modelFolder,
    versionFolder,
    settings: new Map(),
    log: {
      info: line("info"),
      warn: line("warn"),
      error: line("error"),
      verbose: (_level, location, message) =>
        line("verbose")(location, typeof message === "string" ? message : message()),
      table: line("table"),
    },
    models: {
      infer() {
        throw new Error("this test calls no model");
      },
      signature() {
        throw new Error("this test looks at no model");
      },
    },
    metrics: { register: () => ({ [Symbol.dispose]: () => undefined }) },
    ...changes,
    lines,
  };
}

/** Waits for a condition that another process brings about; the test's own time limit ends it. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** One request and all that came of it. */
export class TestRequest implements BackendRequest {
  readonly request: InferRequest;
  readonly batchSize = 1;
  readonly outputNames: readonly string[];
  readonly responses: BackendResponse[] = [];
  readonly errors: ServerError[] = [];
  readonly abort: AbortController = new AbortController();
  readonly ended: Promise<void>;
  /** Pending writes of a client that reads nothing. */
  drain: Promise<void> = Promise.resolve();
  #end: () => void = () => undefined;

  constructor(inputs: readonly Tensor[] = [], changes: Partial<InferRequest> = {}, outputNames: string[] = ["OUT"]) {
    this.outputNames = outputNames;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.request = {
      modelName: "m",
      modelVersion: "",
      id: "",
      inputs,
      outputs: [],
      parameters: NO_PARAMETERS,
      sequence: NO_SEQUENCE,
      priority: 0,
      timeoutUs: 0,
      signal: this.abort.signal,
      origin: { key: this, isLast: true },
      arrivalMs: 0,
      ...changes,
    };
  }

  respond(response: BackendResponse): void {
    this.responses.push(response);
    if (response.final) this.#end();
  }

  fail(error: ServerError): void {
    this.errors.push(error);
    this.#end();
  }

  drained(): Promise<void> {
    return this.drain;
  }

  /** The first error's text, for comparisons. */
  get errorText(): string | undefined {
    return this.errors[0]?.message;
  }
}

export function batchOf(requests: readonly TestRequest[]): Batch & { readonly marks: string[] } {
  const marks: string[] = [];
  return {
    requests,
    batchSize: requests.length,
    marks,
    computeStarted: () => marks.push("start"),
    computeEnded: () => marks.push("end"),
  };
}

export function int32(name: string, values: readonly number[]): Tensor {
  const data = new Uint8Array(Int32Array.from(values).buffer);
  return { name, datatype: "INT32", shape: [values.length], data };
}

/** The elements of an INT32 tensor; views may be unaligned. */
export function int32Values(tensor: Tensor | undefined): number[] {
  return tensor === undefined ? [] : [...new Int32Array(new Uint8Array(tensor.data).buffer)];
}

export function textOf(tensor: Tensor | undefined): string | undefined {
  return tensor === undefined ? undefined : Buffer.from(tensor.data).subarray(4).toString("utf8");
}

export function bytes(name: string, text: string): Tensor {
  const data = Buffer.alloc(4 + Buffer.byteLength(text));
  data.writeUInt32LE(data.length - 4, 0);
  data.write(text, 4);
  return { name, datatype: "BYTES", shape: [1], data };
}
