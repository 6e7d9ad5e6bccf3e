/**
 * Scores of texts against each other: /score, /rerank and /classify, by models of pairs, of vectors, and of classes.
 * Sources: vLLM's "Score API", "Re-rank API" and "Classification API"; Jina's and Cohere's rerank references.
 */
import { MAX_PROMPTS } from "../../core/limits.ts";
import { cosine, type EmbeddingModel, sigmoid, softmax } from "../../text-model/embedding-model.ts";
import type { CallFacts } from "../../text-model/text-request.ts";
import { invalidParameter, missingParameter } from "../api/api-error.ts";
import type { RouteCall } from "../api/route.ts";
import {
  anything,
  array,
  boolean,
  choice,
  integer,
  isObject,
  mapped,
  object,
  optional,
  required,
  type Schema,
  string,
} from "../api/schema.ts";
import { findEmbeddingModel, nowSeconds, type OpenAiContext, startCall } from "./openai-context.ts";

const TEXTS: Schema<readonly string[]> = choice<readonly string[]>(
  "a string or an array of strings",
  [(value) => typeof value === "string", mapped(string(), (text) => [text])],
  [Array.isArray, array(string(), 1, MAX_PROMPTS)],
);

/** A text, or an object with one. */
const DOCUMENT: Schema<string> = mapped(anything(), (value, path) => {
  const text = isObject(value) ? value.text : value;
  if (typeof text === "string") return text;
  throw invalidParameter(
    path,
    "invalid_type",
    `Invalid type for '${path}': expected a string or an object with a text.`,
  );
});

export interface ScoreRequest {
  readonly model: string;
  readonly text_1?: readonly string[] | undefined;
  readonly text_2?: readonly string[] | undefined;
  /** Later names of the same. */
  readonly queries?: readonly string[] | undefined;
  readonly documents?: readonly string[] | undefined;
}

export const SCORE_REQUEST: Schema<ScoreRequest> = object<ScoreRequest>({
  model: required(string()),
  text_1: optional(TEXTS),
  text_2: optional(TEXTS),
  queries: optional(TEXTS),
  documents: optional(TEXTS),
});

/** One text against each of several, or as many against each other. @throws ApiError */
export async function createScores(context: OpenAiContext, body: ScoreRequest, route: RouteCall): Promise<unknown> {
  const left = body.text_1 ?? body.queries;
  const right = body.text_2 ?? body.documents;
  if (left === undefined) throw missingParameter("text_1");
  if (right === undefined) throw missingParameter("text_2");
  if (left.length !== 1 && left.length !== right.length) {
    const text = `Invalid 'text_1': ${left.length} texts against ${right.length}, expected one, or as many.`;
    throw invalidParameter("text_1", "invalid_value", text);
  }
  const model = await findEmbeddingModel(context, body.model, route.access);
  const call = startCall(context, model.name, route);
  const scores = await scoresOf(
    model,
    right.map((_, i) => left[i] ?? left[0] ?? ""),
    right,
    call,
  );
  const numTokens = model.countTokens([...left, ...right]);
  return {
    id: `score-${route.requestId.slice(4)}`,
    object: "list",
    created: nowSeconds(),
    model: body.model,
    data: scores.map((score, index) => ({ index, object: "score", score })),
    usage: { prompt_tokens: numTokens, total_tokens: numTokens },
  };
}

export interface RerankRequest {
  readonly model: string;
  readonly query: string;
  readonly documents: readonly string[];
  readonly top_n?: number | undefined;
  readonly return_documents?: boolean | undefined;
}

export const RERANK_REQUEST: Schema<RerankRequest> = object<RerankRequest>({
  model: required(string()),
  query: required(DOCUMENT),
  documents: required(array(DOCUMENT, 1, MAX_PROMPTS)),
  top_n: optional(integer(0)),
  return_documents: optional(boolean()),
});

/** Best first. @throws ApiError */
export async function rerank(context: OpenAiContext, body: RerankRequest, route: RouteCall): Promise<unknown> {
  const { query, documents, return_documents: withDocuments = true } = body;
  const model = await findEmbeddingModel(context, body.model, route.access);
  const call = startCall(context, model.name, route);
  const scores = await scoresOf(
    model,
    documents.map(() => query),
    documents,
    call,
  );
  const ranked = scores
    .map((score, index) => ({
      index,
      ...(withDocuments ? { document: { text: documents[index] ?? "" } } : {}),
      relevance_score: score,
    }))
    .sort((a, b) => b.relevance_score - a.relevance_score);
  const count = body.top_n === undefined || body.top_n === 0 ? ranked.length : body.top_n;
  const numTokens = model.countTokens([query, ...documents]);
  return {
    id: `rerank-${route.requestId.slice(4)}`,
    model: body.model,
    usage: { prompt_tokens: numTokens, total_tokens: numTokens },
    results: ranked.slice(0, count),
  };
}

/** Models of pairs give the score; of vectors it is the cosine. */
async function scoresOf(
  model: EmbeddingModel,
  left: readonly string[],
  right: readonly string[],
  call: CallFacts,
): Promise<readonly number[]> {
  const { kind, output } = model.signature;
  if (kind === "classify") {
    throw invalidParameter("model", "invalid_value", `The model '${model.name}' is for /v1/classify.`);
  }
  if (kind === "score") {
    const rows = await model.scorePairs(
      right.map((pair, i) => ({ text: left[i] ?? "", pair })),
      call,
    );
    const isLogit = output.name === "logits";
    return rows.map((row) => (isLogit ? sigmoid(row.at(-1) ?? 0) : (row.at(-1) ?? 0)));
  }
  const texts = [...new Set([...left, ...right])];
  const vectors = await model.embed(texts, call);
  const byText = new Map(texts.map((text, i) => [text, vectors[i] ?? new Float32Array(0)]));
  const vectorOf = (text: string | undefined): Float32Array => byText.get(text ?? "") ?? new Float32Array(0);
  return right.map((text, i) => cosine(vectorOf(left[i]), vectorOf(text)));
}

export interface ClassifyRequest {
  readonly model: string;
  readonly input: readonly string[];
}

export const CLASSIFY_REQUEST: Schema<ClassifyRequest> = object<ClassifyRequest>({
  model: required(string()),
  input: required(TEXTS),
});

/** @throws ApiError */
export async function classify(context: OpenAiContext, body: ClassifyRequest, route: RouteCall): Promise<unknown> {
  const model = await findEmbeddingModel(context, body.model, route.access);
  const { kind, output } = model.signature;
  if (kind !== "classify") {
    const text = `The model '${model.name}' has no classes: set 'label_filename' of its output in config.pbtxt.`;
    throw invalidParameter("model", "invalid_value", text);
  }
  const call = startCall(context, model.name, route);
  const rows = await model.embed(body.input, call);
  const numTokens = model.countTokens(body.input);
  const data = rows.map((row, index) => {
    const probs = output.name === "logits" ? softmax(row) : row;
    const best = probs.indexOf(Math.max(...probs));
    return {
      index,
      label: model.served.label(output.name, best) ?? String(best),
      probs: [...probs],
      num_classes: probs.length,
    };
  });
  return {
    id: `classify-${route.requestId.slice(4)}`,
    object: "list",
    created: nowSeconds(),
    model: body.model,
    data,
    usage: { prompt_tokens: numTokens, total_tokens: numTokens },
  };
}
