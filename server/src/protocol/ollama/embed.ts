/** POST /api/embed, and its older form /api/embeddings. Source: Ollama's API reference, "Generate embeddings". */
import { type EmbeddingModel, shortened } from "../../text-model/embedding-model.ts";
import { invalidParameter } from "../api/api-error.ts";
import type { RouteCall } from "../api/route.ts";
import { findEmbeddingModel, type OpenAiContext, startCall } from "../openai/openai-context.ts";
import { nanoseconds } from "./answer-lines.ts";
import { type OllamaEmbeddingsRequest, type OllamaEmbedRequest, servedName } from "./ollama-request.ts";

/** A token has at least a byte, and a character at most four (RFC 3629, 3). */
const MAX_TOKENS_OF_CHAR = 4;

/** Vectors of length 1, as Ollama gives them. @throws ApiError @throws ServerError */
export async function embed(context: OpenAiContext, body: OllamaEmbedRequest, route: RouteCall): Promise<unknown> {
  const model = await findVectorModel(context, body.model, route);
  const texts = (body.input ?? []).map((text, i) => fitted(model, text, `input[${i}]`, body.truncate !== false));
  const vectors = await model.embed(texts, startCall(context, model.name, route));
  return {
    model: body.model,
    embeddings: vectors.map((vector) => [...shortened(vector, expectDimensions(vector, body.dimensions))]),
    total_duration: nanoseconds(performance.now() - route.call.arrivalMs),
    load_duration: 0,
    prompt_eval_count: model.countTokens(texts),
  };
}

/** One vector, as the model gives it. @throws ApiError @throws ServerError */
export async function embedOne(
  context: OpenAiContext,
  body: OllamaEmbeddingsRequest,
  route: RouteCall,
): Promise<unknown> {
  const model = await findVectorModel(context, body.model, route);
  const [vector] = await model.embed([body.prompt], startCall(context, model.name, route));
  return { embedding: [...(vector ?? [])] };
}

/** A text that the context holds: cut, or refused. @throws ApiError */
function fitted(model: EmbeddingModel, text: string, path: string, isCut: boolean): string {
  const { contextLength, tokenizer } = model.assets;
  if (contextLength === undefined || tokenizer === undefined || text.length <= contextLength / MAX_TOKENS_OF_CHAR) {
    return text;
  }
  const count = (part: string): number => tokenizer.encode(part, { addSpecialTokens: true }).length;
  const numTokens = count(text);
  if (numTokens <= contextLength) return text;
  if (isCut) {
    const room = contextLength - count("");
    return tokenizer.decode(tokenizer.encode(text, { addSpecialTokens: false }).subarray(0, room), {
      skipSpecialTokens: true,
    });
  }
  const why = `'${path}' has ${numTokens} tokens, and the context of model '${model.name}' holds ${contextLength}.`;
  throw invalidParameter(path, "invalid_value", `the input length exceeds the context length: ${why}`);
}

async function findVectorModel(context: OpenAiContext, name: string, route: RouteCall): Promise<EmbeddingModel> {
  const model = await findEmbeddingModel(context, servedName(name), route.access);
  if (model.signature.kind === "embeddings") return model;
  throw invalidParameter("model", "invalid_value", `The model '${model.name}' gives no vectors.`);
}

function expectDimensions({ length }: Float32Array, dimensions: number = length): number {
  if (dimensions <= length) return dimensions;
  const text = `Invalid 'dimensions': expected a value <= ${length}, but got ${dimensions} instead.`;
  throw invalidParameter("dimensions", "integer_above_max_value", text);
}
