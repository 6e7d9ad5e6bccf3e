/** Parses a retrieval request, and formats its result as tensors. Pure; knows no store. */

import { bytesElements, packBytesElements } from "@nereid/server/core/bytes-tensor";
import type { InferRequest } from "@nereid/server/core/infer-request";
import { MAX_RETRIEVAL_FILTER_CHARS, MAX_RETRIEVAL_HITS, MAX_RETRIEVAL_VECTORS } from "@nereid/server/core/limits";
import { invalidArgument } from "@nereid/server/core/server-error";
import { elementCount, type Tensor } from "@nereid/server/core/tensor";
import { parseFilter } from "../stores/filter.ts";
import type { Hit, SearchQuery } from "../stores/vector-store.ts";
import type { RetrievalSettings } from "./retrieval-settings.ts";

export interface RetrievalQuery {
  readonly query: SearchQuery;
  /** Dimensions of the embeddings without the vector itself. */
  readonly shape: readonly number[];
  /** Queries with the same key differ in their vectors only, so one query serves them all. */
  readonly key: string;
}

/** @throws ServerError naming the input that is wrong */
export function readRetrievalQuery(request: InferRequest, settings: RetrievalSettings): RetrievalQuery {
  const tensor = request.inputs.find(({ name }) => name === settings.embedding);
  if (tensor === undefined) throw invalidArgument(`input '${settings.embedding}' is missing`);
  const shape = tensor.shape.slice(0, -1);
  const vectors = vectorsOf(tensor, elementCount(shape));
  const k = readHits(request, settings);
  const text = readFilterText(request);
  // The configured filter holds in addition to the client's.
  const filter = [...settings.filter, ...parseFilter(text, "input 'filter'")];
  return { query: { vectors, k, metric: settings.metric, filter }, shape, key: `${k} ${text}` };
}

function vectorsOf(tensor: Tensor, count: number): readonly Float32Array[] {
  const { name, shape, data } = tensor;
  const dimensions = shape.at(-1) ?? 0;
  if (count === 0 || count > MAX_RETRIEVAL_VECTORS || dimensions === 0) {
    const text = `input '${name}' has ${count} vectors of ${dimensions} numbers, expected 1 to ${MAX_RETRIEVAL_VECTORS}`;
    throw invalidArgument(text);
  }
  const values = new Float32Array(Uint8Array.from(data).buffer); // it lies at an even address
  if (!values.every(Number.isFinite)) throw invalidArgument(`input '${name}' has numbers that are not finite`);
  return Array.from({ length: count }, (_, i) => values.subarray(i * dimensions, (i + 1) * dimensions));
}

/** One number of hits for all rows: the largest request. */
function readHits({ inputs }: InferRequest, settings: RetrievalSettings): number {
  const tensor = inputs.find(({ name }) => name === "k");
  if (tensor === undefined) return settings.k;
  const values = new Int32Array(Uint8Array.from(tensor.data).buffer);
  for (const k of values) {
    if (k < 1 || k > MAX_RETRIEVAL_HITS)
      throw invalidArgument(`input 'k' is ${k}, expected 1 to ${MAX_RETRIEVAL_HITS}`);
  }
  return values.length === 0 ? settings.k : Math.max(...values);
}

function readFilterText({ inputs }: InferRequest): string {
  const tensor = inputs.find(({ name }) => name === "filter");
  if (tensor === undefined) return "";
  const texts = new Set(bytesElements(tensor).map((bytes) => new TextDecoder().decode(bytes)));
  const [text = ""] = texts;
  if (texts.size > 1)
    throw invalidArgument("input 'filter' differs between the rows of one request; send requests of their own");
  if (text.length > MAX_RETRIEVAL_FILTER_CHARS) {
    throw invalidArgument(
      `input 'filter' has ${text.length} characters, expected at most ${MAX_RETRIEVAL_FILTER_CHARS}`,
    );
  }
  return text;
}

/** Rows with fewer hits are padded with empty ids and documents, and scores of 0. */
export function answerTensors(
  { shape }: RetrievalQuery,
  hits: readonly (readonly Hit[])[],
  { outputs, fixedHits }: RetrievalSettings,
): readonly Tensor[] {
  const width = fixedHits ?? hits.reduce((most, { length }) => Math.max(most, length), 0);
  const rows = hits.map((list) => Array.from({ length: width }, (_, i) => list[i]));
  const full = [...shape, width];
  const texts = (name: string, read: (hit: Hit) => string): Tensor => {
    const data = packBytesElements(rows.flat().map((hit) => (hit === undefined ? "" : read(hit))));
    return { name, datatype: "BYTES", shape: full, data };
  };
  const scores = Float32Array.from(rows.flat(), (hit) => hit?.score ?? 0);
  const all: Tensor[] = [
    texts("ids", ({ id }) => id),
    { name: "scores", datatype: "FP32", shape: full, data: new Uint8Array(scores.buffer) },
    texts("documents", ({ document }) => document),
  ];
  return all.filter(({ name }) => outputs.has(name));
}
