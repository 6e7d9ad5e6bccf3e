/** Turns the result of a model's `auto_complete_config` into the server's description of a model. Pure. */

import { isObject, shownValue } from "../../core/json-object.ts";
import type { ConfigDataType, ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import type { DescribedTensor, ModelDescription } from "../backend.ts";

const DATA_TYPE = /^TYPE_(?:BOOL|U?INT(?:8|16|32|64)|FP(?:16|32|64)|STRING|BF16)$/;

/** `json` is the configuration after the model's code has changed it. @throws ServerError where that is no configuration */
export function describeModel(json: string, config: ModelConfig): ModelDescription {
  const at = `auto_complete_config of model '${config.name}'`;
  const completed: unknown = JSON.parse(json);
  if (!isObject(completed)) throw invalid(at, "an object", completed);
  const maxBatchSize = completed.max_batch_size;
  if (typeof maxBatchSize !== "number" || !Number.isSafeInteger(maxBatchSize) || maxBatchSize < 0) {
    throw invalid(`${at}: max_batch_size`, "a non-negative integer", maxBatchSize);
  }
  const policy = completed.model_transaction_policy;
  const decoupled = isObject(policy) ? policy.decoupled : undefined;
  return {
    inputs: describedTensors(completed.input, maxBatchSize > 0, `${at}: input`),
    outputs: describedTensors(completed.output, maxBatchSize > 0, `${at}: output`),
    canBatch: maxBatchSize > 0,
    addsTensors: true,
    maxBatchSize,
    ...(isObject(completed.dynamic_batching) ? { dynamicBatching: true } : {}),
    ...(typeof decoupled === "boolean" ? { decoupled } : {}),
  };
}

function describedTensors(tensors: unknown, batches: boolean, at: string): DescribedTensor[] {
  if (!Array.isArray(tensors)) throw invalid(at, "a list", tensors);
  return tensors.map((tensor: unknown, index) => describedTensor(tensor, batches, `${at}[${index}]`));
}

function describedTensor(tensor: unknown, batches: boolean, at: string): DescribedTensor {
  if (!isObject(tensor)) throw invalid(at, "an object", tensor);
  const { name, data_type: dataType, dims, optional } = tensor;
  if (typeof name !== "string") throw invalid(`${at}.name`, "a string", name);
  if (!isDataType(dataType)) throw invalid(`${at}.data_type`, "a data type such as TYPE_FP32", dataType);
  if (!isDims(dims)) throw invalid(`${at}.dims`, "a list of integers", dims);
  return { name, dataType, dims: batches ? [-1, ...dims] : dims, ...(optional === true ? { optional } : {}) };
}

function isDataType(value: unknown): value is ConfigDataType {
  return typeof value === "string" && DATA_TYPE.test(value);
}

function isDims(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((dim) => Number.isSafeInteger(dim));
}

function invalid(at: string, expected: string, got: unknown): ServerError {
  return invalidArgument(`${at} must be ${expected}, got ${shownValue(got)}`);
}
