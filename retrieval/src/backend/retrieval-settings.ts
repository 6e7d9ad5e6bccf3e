/** Settings of a retrieval model from its configuration: tensors, store, and query options. Pure. */

import { MAX_RETRIEVAL_HITS } from "@nereid/server/core/limits";
import type { ModelConfig } from "@nereid/server/core/model-config";
import { invalidArgument, type ServerError } from "@nereid/server/core/server-error";
import { parseFilter } from "../stores/filter.ts";
import { expectCollectionName } from "../stores/open-store.ts";
import { type Filter, METRICS, type Metric } from "../stores/vector-store.ts";

export interface RetrievalSettings {
  /** Name of the input with vectors. */
  readonly embedding: string;
  /** Configured outputs. */
  readonly outputs: ReadonlySet<string>;
  /** Hits per row when the configuration fixes the output shape. */
  readonly fixedHits: number | undefined;
  readonly store: string;
  readonly collection: string;
  readonly metric: Metric;
  readonly filter: Filter;
  readonly k: number;
  readonly maxConnections: number;
  readonly timeoutMs: number;
  readonly retries: number;
  /** Address of the database with the documents; undefined: they are in the store. */
  readonly documents: string | undefined;
  readonly isBatching: boolean;
}

export const OUTPUTS: readonly string[] = ["ids", "scores", "documents"];
const OUTPUT_TYPES: Readonly<Record<string, string>> = {
  ids: "TYPE_STRING",
  scores: "TYPE_FP32",
  documents: "TYPE_STRING",
};
const INPUT_TYPES: Readonly<Record<string, readonly string[]>> = { k: ["TYPE_INT32"], filter: ["TYPE_STRING"] };
const DEFAULT_HITS = 5;
const DEFAULT_TIMEOUT_MS = 5000;
const DEFAULT_CONNECTIONS = 8;
const DEFAULT_RETRIES = 2;
const MAX_CONNECTIONS = 1000;
const MAX_RETRIES = 10;
const MAX_TIMEOUT_MS = 600_000;

/** @throws ServerError when the configuration is invalid */
export function readRetrievalSettings(config: ModelConfig): RetrievalSettings {
  const reader = new Parameters(config);
  const collection = reader.text("collection") ?? config.name;
  expectCollectionName(collection);
  const k = reader.count("k", DEFAULT_HITS, 1, MAX_RETRIEVAL_HITS);
  return {
    ...tensorsOf(config),
    store: reader.text("store") ?? "pglite:store",
    collection,
    metric: metricOf(config, reader.text("metric") ?? "cosine"),
    filter: parseFilter(reader.text("filter") ?? "", `model '${config.name}': parameter 'filter'`),
    k,
    maxConnections: reader.count("max_connections", DEFAULT_CONNECTIONS, 1, MAX_CONNECTIONS),
    timeoutMs: reader.count("timeout_ms", DEFAULT_TIMEOUT_MS, 1, MAX_TIMEOUT_MS),
    retries: reader.count("retries", DEFAULT_RETRIES, 0, MAX_RETRIES),
    documents: reader.text("documents"),
    isBatching: config.max_batch_size > 0,
  };
}

function tensorsOf(config: ModelConfig): Pick<RetrievalSettings, "embedding" | "outputs" | "fixedHits"> {
  const vectors = config.input.filter(({ data_type }) => data_type === "TYPE_FP32");
  const [embedding] = vectors;
  if (embedding === undefined || vectors.length > 1) {
    throw wrong(config, "the retrieval backend expects one input of TYPE_FP32, the embeddings");
  }
  for (const { name, data_type } of config.input) {
    if (name === embedding.name) continue;
    const types = Object.hasOwn(INPUT_TYPES, name) ? INPUT_TYPES[name] : undefined;
    if (types?.includes(data_type) !== true)
      throw wrong(
        config,
        `input '${name}' of ${data_type} is unknown; expected 'k' of TYPE_INT32, 'filter' of TYPE_STRING`,
      );
  }
  for (const { name, data_type } of config.output) {
    if (Object.hasOwn(OUTPUT_TYPES, name) && OUTPUT_TYPES[name] === data_type) continue;
    throw wrong(
      config,
      `output '${name}' of ${data_type} is unknown; expected 'ids' and 'documents' of TYPE_STRING, 'scores' of TYPE_FP32`,
    );
  }
  const widths = config.output.map(({ dims }) => dims.at(-1) ?? -1).filter((dim) => dim > 0);
  return {
    embedding: embedding.name,
    outputs: new Set(config.output.map(({ name }) => name)),
    fixedHits: widths.length === 0 ? undefined : Math.max(...widths),
  };
}

function metricOf(config: ModelConfig, name: string): Metric {
  const metric = METRICS.find((candidate) => candidate === name);
  if (metric !== undefined) return metric;
  throw wrong(config, `parameter 'metric' is '${name}', expected ${METRICS.join(", ")}`);
}

class Parameters {
  readonly #config: ModelConfig;

  constructor(config: ModelConfig) {
    this.#config = config;
  }

  text(key: string): string | undefined {
    const { parameters } = this.#config;
    const value = Object.hasOwn(parameters, key) ? parameters[key]?.string_value : undefined;
    return value === undefined || value === "" || value.startsWith("${") ? undefined : value;
  }

  count(key: string, fallback: number, least: number, most: number): number {
    const text = this.text(key);
    if (text === undefined) return fallback;
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    throw wrong(this.#config, `parameter '${key}' is '${text}', expected a whole number from ${least} to ${most}`);
  }
}

function wrong({ name }: ModelConfig, text: string): ServerError {
  return invalidArgument(`model '${name}': ${text}`);
}
