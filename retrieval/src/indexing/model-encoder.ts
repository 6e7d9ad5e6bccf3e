/** An encoder model of an in-process server: one input of texts or images, one output of vectors. */
import { packBytesElements } from "@nereid/server/core/bytes-tensor";
import { NO_PARAMETERS, NO_SEQUENCE } from "@nereid/server/core/infer-request";
import type { ServedModel, TensorMetadata } from "@nereid/server/core/model-server";
import { elementCount, type Tensor } from "@nereid/server/core/tensor";
import { ToolError } from "@nereid/server/files/tool-error";
import type { Encoder } from "./index-records.ts";

export interface ModelEncoderOptions {
  readonly batchSize: number;
  /** Undefined: the model's only output of floats. */
  readonly output: string | undefined;
}

/** @throws ToolError when the model is no encoder */
export function modelEncoder(model: ServedModel, { batchSize, output }: ModelEncoderOptions): Encoder {
  const input = inputOf(model);
  const wanted = outputOf(model, output);
  const { max_batch_size: maxBatch } = model.config;
  const isBatching = maxBatch > 0;
  return {
    name: `${model.name}:${model.version}:${wanted}`,
    batchSize: isBatching ? Math.min(batchSize, maxBatch) : batchSize,
    async encode(contents, signal) {
      const shape = isBatching ? [contents.length, 1] : [contents.length];
      const tensor = { name: input, datatype: "BYTES", shape, data: packBytesElements(contents) } as const;
      const found = await infer(model, tensor, wanted, signal);
      return rowsOf(found, contents.length, model.name);
    },
  };
}

async function infer(model: ServedModel, tensor: Tensor, output: string, signal: AbortSignal): Promise<Tensor> {
  const responses = model.infer({
    modelName: model.name,
    modelVersion: "",
    id: "",
    inputs: [tensor],
    outputs: [output],
    parameters: NO_PARAMETERS,
    sequence: NO_SEQUENCE,
    priority: 0,
    timeoutUs: 0,
    signal,
    origin: { key: {}, isLast: true },
    arrivalMs: performance.now(),
  });
  for await (const { outputs, error } of responses) {
    if (error !== undefined) throw error;
    const found = outputs.find(({ name }) => name === output);
    if (found !== undefined) return found;
  }
  throw new ToolError(`Model '${model.name}' gave no output '${output}'`);
}

function rowsOf({ name, shape, data }: Tensor, count: number, model: string): readonly Float32Array[] {
  const dimensions = count === 0 ? 0 : elementCount(shape) / count;
  if (!Number.isInteger(dimensions) || dimensions === 0) {
    throw new ToolError(`Model '${model}' gave '${name}' of shape [${shape.join(", ")}] for ${count} records`);
  }
  const values = new Float32Array(Uint8Array.from(data).buffer);
  return Array.from({ length: count }, (_, row) => values.slice(row * dimensions, (row + 1) * dimensions));
}

function inputOf({ name, inputs }: ServedModel): string {
  const [input, ...others] = [...inputs.values()];
  if (input !== undefined && others.length === 0 && input.datatype === "BYTES") return input.name;
  const fix = "An encoder has one input of TYPE_STRING: put a tokenizer or image model in front of it in an ensemble";
  throw new ToolError(`Model '${name}' has the inputs ${described(inputs)}`, { fix });
}

function outputOf({ name, outputs }: ServedModel, wanted: string | undefined): string {
  const floats = [...outputs.values()].filter(({ datatype }) => datatype === "FP32");
  const found = wanted === undefined ? floats : floats.filter((output) => output.name === wanted);
  const [output] = found;
  if (output !== undefined && found.length === 1) return output.name;
  const fix = "Name the one of TYPE_FP32 that has the vectors with --output";
  throw new ToolError(`Model '${name}' has the outputs ${described(outputs)}`, { fix });
}

function described(tensors: ReadonlyMap<string, TensorMetadata>): string {
  return [...tensors.values()].map(({ name, datatype }) => `${name} (${datatype})`).join(", ");
}
