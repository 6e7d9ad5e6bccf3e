/** Warm-up: the samples of `model_warmup`, run on every instance before a version turns ready. Never counted. */
import { randomFillSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { elementSize } from "@nereid/wire";
import type { BackendRequest, Batch, ModelInstance } from "../backend/backend.ts";
import { type InferRequest, NO_PARAMETERS, NO_SEQUENCE } from "../core/infer-request.ts";
import type { ModelConfig, ModelWarmup, ModelWarmupInput } from "../core/model-config.ts";
import { datatypeOf, signatureOf } from "../core/model-signature.ts";
import { ServerError } from "../core/server-error.ts";
import { elementCount, type Tensor } from "../core/tensor.ts";
import { validateRequest } from "../core/validate-request.ts";
import { resolveBeneath } from "./beneath.ts";

/** @throws ServerError naming the sample that failed */
export async function warmUp(
  config: ModelConfig,
  modelFolder: string,
  instances: readonly ModelInstance[],
): Promise<void> {
  for (const sample of config.model_warmup) {
    const rows = config.max_batch_size > 0 ? sample.batch_size : Math.min(1, sample.batch_size);
    if (rows === 0) continue;
    try {
      const inputs = sampleInputs(config, sample, modelFolder);
      for (const instance of instances) await runSample(config, sample, inputs, rows, instance);
    } catch (error) {
      const { code, message } = ServerError.from(error);
      throw new ServerError(code, `failed to run warmup sample '${sample.name}': ${message}`, { cause: error });
    }
  }
}

async function runSample(
  config: ModelConfig,
  sample: ModelWarmup,
  inputs: readonly Tensor[],
  rows: number,
  instance: ModelInstance,
): Promise<void> {
  for (let run = 0; run < Math.max(1, sample.count); run += 1) {
    const ends: Promise<void>[] = [];
    const requests = Array.from({ length: rows }, () => {
      const { request, ended } = warmUpRequest(config, inputs);
      ends.push(ended);
      return request;
    });
    const batch: Batch = {
      requests,
      batchSize: rows,
      computeStarted: () => undefined,
      computeEnded: () => undefined,
    };
    await instance.execute(batch);
    await Promise.all(ends);
  }
}

/** A request whose answers go nowhere; `ended` settles with its end. */
function warmUpRequest(
  config: ModelConfig,
  inputs: readonly Tensor[],
): { request: BackendRequest; ended: Promise<void> } {
  let resolve = (): void => undefined;
  let reject: (error: ServerError) => void = () => undefined;
  const ended = new Promise<void>((onEnd, onError) => {
    resolve = onEnd;
    reject = onError;
  });
  ended.catch(() => undefined); // awaited after the execution; until then a failure must not count as unhandled
  const clientRequest: InferRequest = {
    modelName: config.name,
    modelVersion: "",
    id: "warmup",
    inputs,
    outputs: [],
    parameters: NO_PARAMETERS,
    sequence: NO_SEQUENCE,
    priority: 0,
    timeoutUs: 0,
    signal: new AbortController().signal,
    origin: { key: {}, isLast: true },
    arrivalMs: performance.now(),
  };
  const checked = validateRequest(clientRequest, signatureOf(config));
  const request: BackendRequest = {
    request: { ...clientRequest, inputs: checked.inputs },
    batchSize: 1,
    outputNames: config.output.map(({ name }) => name),
    respond: ({ final, error }) => {
      if (error !== undefined) reject(error);
      else if (final) resolve();
    },
    fail: (error) => reject(error),
    drained: () => Promise.resolve(),
  };
  return { request, ended };
}

function sampleInputs(config: ModelConfig, sample: ModelWarmup, modelFolder: string): Tensor[] {
  return Object.entries(sample.inputs).map(([name, input]) => {
    const datatype = datatypeOf(input.data_type);
    const shape = config.max_batch_size > 0 ? [1, ...input.dims] : [...input.dims];
    if (shape.some((dim) => dim < 0)) {
      throw new ServerError("invalid_argument", `input '${name}' must have all of its dims specified`);
    }
    const count = elementCount(shape);
    const size = datatype === "BYTES" ? count * 4 : count * elementSize(datatype);
    return { name, datatype, shape, data: sampleData(input, name, size, datatype === "BYTES", modelFolder) };
  });
}

function sampleData(input: ModelWarmupInput, name: string, size: number, isBytes: boolean, folder: string): Uint8Array {
  if (input.input_data_file !== undefined) {
    const data = new Uint8Array(readFileSync(resolveBeneath(folder, `warmup/${input.input_data_file}`)));
    if (isBytes || data.length >= size) return isBytes ? data : data.subarray(0, size);
    throw new ServerError(
      "invalid_argument",
      `input '${name}' expects ${size} bytes, the data file has ${data.length}`,
    );
  }
  const data = new Uint8Array(size);
  if (input.random_data === true && !isBytes) randomFillSync(data); // random lengths would make broken strings
  return data;
}
