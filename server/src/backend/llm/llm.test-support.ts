/** For tests of the LLM backend: a model served by a fake or a real engine, and calls of it with tensors. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { type InferRequest, NO_PARAMETERS, NO_SEQUENCE } from "../../core/infer-request.ts";
import type { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { MetricFamily } from "../../observe/metrics.ts";
import type { BackendResponse, Batch, ModelInstance, ModelSource } from "../backend.ts";
import { createLlmBackend, type HostSettings } from "./llm-backend.ts";

export const EXAMPLES: string = fileURLToPath(new URL("../../../../examples/", import.meta.url));
export const FOLDER: string = `${EXAMPLES}model_repository/tensorrt_llm`;
export const FAKE: HostSettings = {
  entry: fileURLToPath(new URL("../../../../tests/fakes/engine-host.ts", import.meta.url)),
  env: { FAKE_HOST: "" },
};

export interface Served {
  readonly instance: ModelInstance;
  readonly metrics: readonly MetricFamily[];
  readonly warnings: readonly string[];
}

export async function serve(
  t: TestContext,
  changes: (text: string) => string,
  host: HostSettings = FAKE,
  modelFolder: string = FOLDER,
): Promise<Served> {
  const text = changes(readFileSync(`${FOLDER}/config.pbtxt`, "utf8"));
  const warnings: string[] = [];
  const metrics: MetricFamily[] = [];
  const ignore = (): void => undefined;
  const warn = (_: string, message: string): void => {
    warnings.push(message);
  };
  const source: ModelSource = {
    name: "tensorrt_llm",
    version: 1,
    config: parseModelConfigText(text, "config.pbtxt"),
    modelFolder,
    versionFolder: `${FOLDER}/1`,
    settings: new Map(),
    log: { info: ignore, warn, error: warn, verbose: ignore, table: ignore },
    models: {
      infer: () => {
        throw new Error("calls no model");
      },
      signature: () => {
        throw new Error("calls no model");
      },
    },
    metrics: {
      register: (family) => {
        metrics.push(family);
        return { [Symbol.dispose]: ignore };
      },
    },
  };
  const model = await createLlmBackend("tensorrtllm", host).load(source);
  const instance = await model.createInstance({ name: "tensorrt_llm_0_0", kind: "KIND_CPU", deviceId: 0 });
  t.after(async () => {
    await instance.close();
    await model.close();
  });
  return { instance, metrics, warnings };
}

export function int32(name: string, shape: readonly number[], ...values: number[]): Tensor {
  return { name, datatype: "INT32", shape, data: new Uint8Array(Int32Array.from(values).buffer) };
}

export function bool(name: string, shape: readonly number[], ...values: boolean[]): Tensor {
  return { name, datatype: "BOOL", shape, data: Uint8Array.from(values, Number) };
}

export function fp32(name: string, shape: readonly number[], ...values: number[]): Tensor {
  return { name, datatype: "FP32", shape, data: new Uint8Array(Float32Array.from(values).buffer) };
}

export function text(name: string, value: string): Tensor {
  const bytes = new TextEncoder().encode(value);
  const data = new Uint8Array(4 + bytes.length);
  new DataView(data.buffer).setUint32(0, bytes.length, true);
  data.set(bytes, 4);
  return { name, datatype: "BYTES", shape: [1, 1], data };
}

/** A row of ids with what every request has. */
export function prompt(ids: readonly number[], maxTokens: number, ...more: Tensor[]): Tensor[] {
  const lengths = [int32("input_lengths", [1], ids.length), int32("request_output_len", [1], maxTokens)];
  return [int32("input_ids", [1, ids.length], ...ids), ...lengths, ...more];
}

export interface Call {
  readonly responses: BackendResponse[];
  readonly ended: Promise<ServerError | undefined>;
}

const OUTPUTS = ["output_ids", "sequence_length", "cum_log_probs", "output_log_probs", "batch_index", "sequence_index"];

export function call(
  instance: ModelInstance,
  inputs: readonly Tensor[],
  options: {
    id?: string;
    signal?: AbortSignal;
    batchSize?: number;
    outputNames?: readonly string[];
    priority?: number;
  } = {},
): Call {
  const request: InferRequest = {
    modelName: "tensorrt_llm",
    modelVersion: "",
    id: options.id ?? "",
    inputs,
    outputs: [],
    parameters: NO_PARAMETERS,
    sequence: NO_SEQUENCE,
    priority: options.priority ?? 0,
    timeoutUs: 0,
    signal: options.signal ?? new AbortController().signal,
    origin: { key: {}, isLast: true },
    arrivalMs: performance.now(),
  };
  const responses: BackendResponse[] = [];
  const ended = new Promise<ServerError | undefined>((resolve) => {
    const batch: Batch = {
      batchSize: options.batchSize ?? 1,
      requests: [
        {
          request,
          batchSize: options.batchSize ?? 1,
          outputNames: options.outputNames ?? OUTPUTS,
          respond: (response) => {
            responses.push(response);
            if (response.final) resolve(undefined);
          },
          fail: resolve,
          drained: () => Promise.resolve(),
        },
      ],
      computeStarted: () => undefined,
      computeEnded: () => undefined,
    };
    assert.equal(instance.execute(batch), undefined);
  });
  return { responses, ended };
}

export function values(
  response: BackendResponse | undefined,
  name: string,
): { shape: readonly number[]; values: number[] } {
  const tensor = response?.outputs.find((output) => output.name === name);
  if (tensor === undefined) throw new Error(`no output ${name}`);
  const { buffer } = tensor.data.slice();
  const array = tensor.datatype === "FP32" ? new Float32Array(buffer) : new Int32Array(buffer);
  return { shape: tensor.shape, values: [...array] };
}

export const notDecoupled = (text: string): string => text.replace("decoupled: true", "decoupled: false");
export const asIs = (text: string): string => text;
