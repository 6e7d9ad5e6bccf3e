/**
 * Checked server and model metadata, and the repository index, from JSON. Sources: Open Inference Protocol, "Server
 * Metadata" and "Model Metadata"; Triton's model repository extension.
 */
import { ClientError } from "./client-error.ts";
import { isRecord, type JsonData, type JsonRecord } from "./json-document.ts";
import type { LogSettings, MemoryRegion, TraceSettings } from "./server-resources.ts";

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

/** Calls and their time. Counters beyond 2^53 are bigints. */
export interface StatisticDuration {
  readonly count: number | bigint;
  readonly ns: number | bigint;
}

/** Counters of a version, as the server names them (Triton's statistics extension). */
export interface ModelStatistics {
  readonly name: string;
  readonly version: string;
  readonly last_inference: number | bigint;
  readonly inference_count: number | bigint;
  readonly execution_count: number | bigint;
  /** `success`, `fail`, `queue`, `compute_input`, `compute_infer`, `compute_output`, `cache_hit`, `cache_miss`. */
  readonly inference_stats: Readonly<Record<string, StatisticDuration>>;
  readonly batch_stats: readonly JsonRecord[];
  readonly response_stats: JsonRecord;
  readonly memory_usage: readonly JsonRecord[];
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

/** One record for each version. */
export function readModelStatistics(document: JsonRecord): ModelStatistics[] {
  return list(document, "model_stats").map((one) => {
    const record = expectRecord(one, "an element of 'model_stats'");
    const durations = Object.entries(expectRecord(record.inference_stats ?? {}, "'inference_stats'"));
    return {
      name: text(record, "name"),
      version: text(record, "version", ""),
      last_inference: counter(record, "last_inference"),
      inference_count: counter(record, "inference_count"),
      execution_count: counter(record, "execution_count"),
      inference_stats: Object.fromEntries(durations.map(([name, value]) => [name, readDuration(name, value)])),
      batch_stats: list(record, "batch_stats").map((each) => expectRecord(each, "an element of 'batch_stats'")),
      response_stats: expectRecord(record.response_stats ?? {}, "'response_stats'"),
      memory_usage: list(record, "memory_usage").map((each) => expectRecord(each, "an element of 'memory_usage'")),
    };
  });
}

function readDuration(name: string, value: JsonData | undefined): StatisticDuration {
  const record = expectRecord(value ?? null, `'${name}'`);
  return { count: counter(record, "count"), ns: counter(record, "ns") };
}

/** Regions of shared memory: a list over HTTP, the values of a map over gRPC. */
export function readMemoryRegions(document: JsonData): MemoryRegion[] {
  return expectList(document, "the status of shared memory").map((entry) => {
    const record = expectRecord(entry, "a region of shared memory");
    return {
      name: text(record, "name"),
      byteSize: size(record, "byte_size"),
      ...(record.key === undefined ? {} : { key: text(record, "key"), offset: size(record, "offset") }),
      ...(record.device_id === undefined ? {} : { deviceId: size(record, "device_id") }),
    };
  });
}

/** Settings whose values are scalars. */
export function readLogSettings(document: JsonRecord): LogSettings {
  return Object.fromEntries(
    Object.entries(document).map(([name, value]) => {
      if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return [name, value];
      throw unexpected(`'${name}'`, "a text, a number or a boolean");
    }),
  );
}

export function readTraceSettings(document: JsonRecord): TraceSettings {
  return Object.fromEntries(
    Object.entries(document).map(([name, value]) => {
      if (Array.isArray(value)) return [name, value.map((one: JsonData) => expectText(one, `'${name}'`))];
      return [name, typeof value === "number" ? String(value) : expectText(value, `'${name}'`)];
    }),
  );
}

function counter(record: JsonRecord, name: string): number | bigint {
  const value = record[name] ?? 0;
  if (typeof value !== "number" && typeof value !== "bigint") throw unexpected(`'${name}'`, "a number");
  return value;
}

function size(record: JsonRecord, name: string): number {
  return Number(counter(record, name));
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
