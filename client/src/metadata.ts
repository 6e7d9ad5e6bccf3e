/**
 * Checked server and model metadata, and the repository index, from JSON. Sources: Open Inference Protocol, "Server
 * Metadata" and "Model Metadata"; Triton's model repository extension.
 */
import { ClientError } from "./client-error.ts";
import { isRecord, type JsonData, type JsonRecord } from "./json-document.ts";

export interface ServerMetadata {
  readonly name: string;
  readonly version: string;
  readonly extensions: readonly string[];
}

export interface ModelMetadata {
  readonly name: string;
  readonly versions: readonly string[];
  readonly platform: string;
  readonly inputs: readonly TensorMetadata[];
  readonly outputs: readonly TensorMetadata[];
}

export interface TensorMetadata {
  readonly name: string;
  /** A datatype of the protocol; a string, because servers may know others. */
  readonly datatype: string;
  /** -1 stands for any size. */
  readonly shape: readonly number[];
}

export interface RepositoryEntry {
  readonly name: string;
  /** "" for a model without a version. */
  readonly version: string;
  /** "READY", "UNAVAILABLE", "LOADING", "UNLOADING", or "" when the model was never loaded. */
  readonly state: string;
  readonly reason: string;
}

export function readServerMetadata(document: JsonRecord): ServerMetadata {
  return {
    name: text(document, "name"),
    version: text(document, "version"),
    extensions: list(document, "extensions").map((one) => expectText(one, "an extension")),
  };
}

export function readModelMetadata(document: JsonRecord): ModelMetadata {
  return {
    name: text(document, "name"),
    versions: list(document, "versions").map((one) => expectText(one, "a version")),
    platform: text(document, "platform", ""),
    inputs: list(document, "inputs").map(readTensor),
    outputs: list(document, "outputs").map(readTensor),
  };
}

export function readRepositoryIndex(document: JsonData): RepositoryEntry[] {
  return expectList(document, "the repository index").map((entry) => {
    const record = expectRecord(entry, "an entry of the repository index");
    return {
      name: text(record, "name"),
      version: text(record, "version", ""),
      state: text(record, "state", ""),
      reason: text(record, "reason", ""),
    };
  });
}

/** Counters as the server names them, one record for each version. */
export function readModelStatistics(document: JsonRecord): JsonRecord[] {
  return list(document, "model_stats").map((one) => expectRecord(one, "an element of 'model_stats'"));
}

function readTensor(value: JsonData): TensorMetadata {
  const record = expectRecord(value, "a tensor");
  return {
    name: text(record, "name"),
    datatype: text(record, "datatype"),
    shape: list(record, "shape").map(expectDimension),
  };
}

function expectDimension(value: JsonData): number {
  if (typeof value !== "number") throw unexpected("a dimension", "a number");
  return value;
}

function text(record: JsonRecord, name: string, otherwise?: string): string {
  return expectText(record[name] ?? otherwise, `'${name}'`);
}

function list(record: JsonRecord, name: string): readonly JsonData[] {
  return expectList(record[name] ?? [], `'${name}'`);
}

function expectText(value: JsonData | undefined, what: string): string {
  if (typeof value !== "string") throw unexpected(what, "a text");
  return value;
}

function expectList(value: JsonData, what: string): readonly JsonData[] {
  if (!Array.isArray(value)) throw unexpected(what, "an array");
  return value;
}

function expectRecord(value: JsonData, what: string): JsonRecord {
  if (!isRecord(value)) throw unexpected(what, "an object");
  return value;
}

function unexpected(what: string, expected: string): ClientError {
  return new ClientError("protocol", `the server gave ${what} that is not ${expected}`);
}
