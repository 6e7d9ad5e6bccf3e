/** POST /v1/embeddings. Source: OpenAI's API reference, "Create embeddings". */
import { type EmbeddingModel, shortened } from "../../text-model/embedding-model.ts";
import type { Prompt } from "../../text-model/text-request.ts";
import { invalidParameter } from "../api/api-error.ts";
import type { RouteCall } from "../api/route.ts";
import { integer, mapped, object, oneOf, optional, required, type Schema, string } from "../api/schema.ts";
import { findEmbeddingModel, type OpenAiContext, startCall } from "./openai-context.ts";
import { PROMPTS } from "./prompts.ts";

export interface EmbeddingRequest {
  readonly model: string;
  readonly input: readonly Prompt[];
  readonly encoding_format?: "float" | "base64" | undefined;
  readonly dimensions?: number | undefined;
  readonly user?: string | undefined;
}

export const EMBEDDING_REQUEST: Schema<EmbeddingRequest> = object<EmbeddingRequest>({
  model: required(string()),
  input: required(mapped(PROMPTS, expectNoEmpty)),
  encoding_format: optional(oneOf("float", "base64")),
  dimensions: optional(integer(1)),
  user: optional(string()),
});

/** Unlike the prompt of a completion, a text to embed has content. */
function expectNoEmpty(inputs: readonly Prompt[], path: string): readonly Prompt[] {
  if (!inputs.some((input) => "text" in input && input.text === "")) return inputs;
  const text = `Invalid '${path}': empty string. Expected a string with minimum length 1, but got an empty string instead.`;
  throw invalidParameter(path, "empty_string", text);
}

/** @throws ApiError @throws ServerError */
export async function createEmbeddings(
  context: OpenAiContext,
  body: EmbeddingRequest,
  route: RouteCall,
): Promise<unknown> {
  const model = await findEmbeddingModel(context, body.model, route.access);
  expectVectors(model);
  const call = startCall(context, model.name, route);
  const texts = body.input.map((input) => model.textOf(input));
  const vectors = await model.embed(texts, call);
  const numTokens = model.countTokens(texts);
  return {
    object: "list",
    data: vectors.map((vector, index) => ({ object: "embedding", index, embedding: encoded(vector, body) })),
    model: body.model,
    usage: { prompt_tokens: numTokens, total_tokens: numTokens },
  };
}

function expectVectors({ name, signature }: EmbeddingModel): void {
  if (signature.kind === "embeddings") return;
  const text = `The model '${name}' gives no vectors: it is for ${signature.kind === "score" ? "/v1/score" : "/v1/classify"}.`;
  throw invalidParameter("model", "invalid_value", text);
}

/** Numbers, or their little-endian 32-bit floats in base64. */
function encoded(vector: Float32Array, { dimensions, encoding_format: format }: EmbeddingRequest): unknown {
  if (dimensions !== undefined && dimensions > vector.length) {
    const text = `Invalid 'dimensions': integer above maximum value. Expected a value <= ${vector.length}, but got ${dimensions} instead.`;
    throw invalidParameter("dimensions", "integer_above_max_value", text);
  }
  const values = dimensions === undefined || dimensions === vector.length ? vector : shortened(vector, dimensions);
  if (format !== "base64") return [...values];
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("base64");
}
