/** Batches as OpenAI's objects, which are also how they are kept. Source: OpenAI's API reference, "Batch". */
import { invalidParameter } from "../../api/api-error.ts";
import {
  anyObject,
  array,
  integer,
  type JsonObject,
  mapped,
  object,
  oneOf,
  optional,
  record,
  required,
  type Schema,
  string,
} from "../../api/schema.ts";

export const ENDPOINTS = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"] as const;

export type Endpoint = (typeof ENDPOINTS)[number];

const STATUSES = [
  "validating",
  "failed",
  "in_progress",
  "finalizing",
  "completed",
  "expired",
  "cancelling",
  "cancelled",
] as const;

export type BatchStatus = (typeof STATUSES)[number];

/** A fault of the input file. */
export interface InputFault {
  readonly code: string;
  readonly message: string;
  readonly line?: number | undefined;
  readonly param?: string | undefined;
}

export interface RequestCounts {
  readonly total: number;
  readonly completed: number;
  readonly failed: number;
}

/** Lifetime of the files with results, from their creation. */
export interface OutputLifetime {
  readonly anchor: "created_at";
  readonly seconds: number;
}

/** OpenAI's bounds. */
const OUTPUT_LIFETIME: Schema<OutputLifetime> = object<OutputLifetime>({
  anchor: required(oneOf("created_at")),
  seconds: required(integer(3600, 2_592_000)),
});

/** Times are seconds since 1970. */
export interface Batch {
  readonly id: string;
  readonly object: "batch";
  readonly endpoint: Endpoint;
  readonly errors?: { readonly object: "list"; readonly data: readonly InputFault[] } | undefined;
  readonly input_file_id: string;
  readonly completion_window: "24h";
  readonly status: BatchStatus;
  readonly output_file_id?: string | undefined;
  readonly error_file_id?: string | undefined;
  readonly created_at: number;
  readonly in_progress_at?: number | undefined;
  readonly expires_at: number;
  readonly finalizing_at?: number | undefined;
  readonly completed_at?: number | undefined;
  readonly failed_at?: number | undefined;
  readonly expired_at?: number | undefined;
  readonly cancelling_at?: number | undefined;
  readonly cancelled_at?: number | undefined;
  readonly request_counts: RequestCounts;
  readonly metadata?: JsonObject | undefined;
  readonly output_expires_after?: OutputLifetime | undefined;
}

/** Whose batch it is: the name of the API key, "" without keys. */
export interface OwnedBatch {
  readonly owner: string;
  readonly batch: Batch;
}

const time = () => optional(integer(0));

const INPUT_FAULT: Schema<InputFault> = object<InputFault>({
  code: required(string()),
  message: required(string()),
  line: optional(integer(0)),
  param: optional(string()),
});

const BATCH: Schema<Batch> = object<Batch>({
  id: required(string()),
  object: required(oneOf("batch")),
  endpoint: required(oneOf(...ENDPOINTS)),
  errors: optional(object({ object: required(oneOf("list")), data: required(array(INPUT_FAULT)) })),
  input_file_id: required(string()),
  completion_window: required(oneOf("24h")),
  status: required(oneOf(...STATUSES)),
  output_file_id: optional(string()),
  error_file_id: optional(string()),
  created_at: required(integer(0)),
  in_progress_at: time(),
  expires_at: required(integer(0)),
  finalizing_at: time(),
  completed_at: time(),
  failed_at: time(),
  expired_at: time(),
  cancelling_at: time(),
  cancelled_at: time(),
  request_counts: required(
    object<RequestCounts>({
      total: required(integer(0)),
      completed: required(integer(0)),
      failed: required(integer(0)),
    }),
  ),
  metadata: optional(anyObject()),
  output_expires_after: optional(OUTPUT_LIFETIME),
});

export const OWNED_BATCH: Schema<OwnedBatch> = object<OwnedBatch>({
  owner: required(string()),
  batch: required(BATCH),
});

/** OpenAI's bounds: 16 pairs, keys of 64 and values of 512 characters. */
const MAX_PAIRS = 16;
const MAX_KEY_LENGTH = 64;
const MAX_VALUE_LENGTH = 512;

const METADATA: Schema<JsonObject> = mapped(record(string(MAX_VALUE_LENGTH)), (pairs, path) => {
  if (pairs.size <= MAX_PAIRS && ![...pairs.keys()].some((key) => key.length > MAX_KEY_LENGTH)) {
    return Object.fromEntries(pairs);
  }
  const text = `Invalid '${path}': expected at most ${MAX_PAIRS} pairs with keys of at most ${MAX_KEY_LENGTH} characters.`;
  throw invalidParameter(path, "invalid_value", text);
});

export interface BatchRequest {
  readonly input_file_id: string;
  readonly endpoint: Endpoint;
  readonly completion_window: "24h";
  readonly metadata?: JsonObject | undefined;
  readonly output_expires_after?: OutputLifetime | undefined;
}

export const BATCH_REQUEST: Schema<BatchRequest> = object<BatchRequest>({
  input_file_id: required(string(256)),
  endpoint: required(oneOf(...ENDPOINTS)),
  completion_window: required(oneOf("24h")),
  metadata: optional(METADATA),
  output_expires_after: optional(OUTPUT_LIFETIME),
});

const OVER: ReadonlySet<BatchStatus> = new Set(["failed", "completed", "expired", "cancelled"]);

export function isOver({ status }: Batch): boolean {
  return OVER.has(status);
}
