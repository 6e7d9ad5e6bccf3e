/**
 * Model warm-up: runs the samples of `model_warmup` on every instance before a version becomes ready. Source:
 * model_config.proto, ModelWarmup. Counted like any request.
 */
import { randomFillSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { elementSize } from "@nereid/wire";
import type { ModelInstance } from "../../backend/backend.ts";
import { type InferRequest, NO_PARAMETERS, NO_SEQUENCE, withInputs } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import type { ModelConfig, ModelWarmup, ModelWarmupInput } from "../../core/model-config.ts";
import { datatypeOf } from "../../core/model-signature.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { elementCount, type Tensor } from "../../core/tensor.ts";
import { validateRequest } from "../../core/validate-request.ts";
import type { Logger } from "../../observe/log.ts";
import { execute } from "../../scheduler/execution.ts";
import { type RequestContext, ScheduledRequest } from "../../scheduler/scheduled-request.ts";
import type { SequenceFeed } from "../../scheduler/sequence/feed.ts";
import { resolveContained } from "../source/path-containment.ts";

export interface WarmUpParts {
  readonly config: ModelConfig;
  readonly modelFolder: string;
  readonly instances: readonly ModelInstance[];
  readonly context: RequestContext;
  readonly log: Logger;
  /** For sequence models: adds the control tensors and states that the server provides. */
  readonly feed: SequenceFeed | undefined;
}

/** @throws ServerError naming the sample that failed */
export async function warmUp(parts: WarmUpParts): Promise<void> {
  const { config, modelFolder, instances } = parts;
  for (const sample of config.model_warmup) {
    const rows = config.max_batch_size > 0 ? sample.batch_size : Math.min(1, sample.batch_size);
    if (rows === 0) {
      parts.log.verbose(1, "warmup", `skipping batch 0 warmup sample '${sample.name}'`);
      continue;
    }
    try {
      const inputs = sampleInputs(config, sample, modelFolder);
      for (const instance of instances) {
        for (let run = 1; run <= Math.max(1, sample.count); run += 1) {
          const where = `model '${config.name}' instance ${instance.name}`;
          parts.log.verbose(1, "warmup", `${where} is running warmup sample '${sample.name}' for iteration ${run}`);
          await runSample(parts, inputs, rows, instance);
        }
      }
    } catch (error) {
      const { code, message } = ServerError.from(error);
      throw new ServerError(code, `failed to run warmup sample '${sample.name}': ${message}`, { cause: error });
    }
  }
}

/** One execution of `rows` requests. @throws ServerError when one of them fails */
async function runSample(
  { context, log, feed }: WarmUpParts,
  inputs: readonly Tensor[],
  rows: number,
  instance: ModelInstance,
): Promise<void> {
  const requests = Array.from({ length: rows }, () => {
    const isAdded = ({ name }: Tensor): boolean => feed?.addedNames.has(name) === true;
    const clientInputs = inputs.filter((input) => !isAdded(input));
    const request = warmUpRequest(context.signature.modelName, clientInputs);
    const checked = validateRequest(request, context.signature);
    const given = [...checked.inputs, ...inputs.filter(isAdded)];
    return new ScheduledRequest(withInputs(request, feed?.complete(given) ?? given), checked.batchSize, context);
  });
  const { statistics, decoupled } = context;
  const ends = Promise.all(requests.map(({ stream }) => untilEnd(stream)));
  await Promise.all([execute({ instance, requests, statistics, decoupled, log }), ends]);
}

async function untilEnd(stream: AsyncIterable<InferResponse>): Promise<void> {
  for await (const { error } of stream) {
    if (error !== undefined) throw error;
  }
}

function warmUpRequest(modelName: string, inputs: readonly Tensor[]): InferRequest {
  return {
    modelName,
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
}

function sampleInputs(config: ModelConfig, sample: ModelWarmup, modelFolder: string): Tensor[] {
  return Object.entries(sample.inputs).map(([name, input]) => {
    const datatype = datatypeOf(input.data_type);
    const shape = config.max_batch_size > 0 ? [1, ...input.dims] : [...input.dims];
    if (shape.some((dim) => dim < 0)) {
      throw invalidArgument(`input '${name}' must have all of its dims specified`);
    }
    const count = elementCount(shape);
    const size = datatype === "BYTES" ? count * 4 : count * elementSize(datatype);
    return { name, datatype, shape, data: sampleData(input, name, size, datatype === "BYTES", modelFolder) };
  });
}

function sampleData(input: ModelWarmupInput, name: string, size: number, isBytes: boolean, folder: string): Uint8Array {
  if (input.input_data_file !== undefined) {
    const data = new Uint8Array(readFileSync(resolveContained(folder, `warmup/${input.input_data_file}`)));
    if (isBytes || data.length >= size) return isBytes ? data : data.subarray(0, size);
    throw invalidArgument(`input '${name}' expects ${size} bytes, the data file has ${data.length}`);
  }
  const data = new Uint8Array(size);
  if (input.random_data === true && !isBytes) randomFillSync(data); // random lengths would give invalid BYTES elements
  return data;
}
