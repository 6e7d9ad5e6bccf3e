/** Parts that all handlers of the OpenAI API share. Source: OpenAI's API reference. */
import type { ModelServer } from "../../core/model-server.ts";
import type { EmbeddingModel } from "../../text-model/embedding-model.ts";
import type { SpeechModel } from "../../text-model/speech/speech-model.ts";
import type { TextModel } from "../../text-model/text-model.ts";
import type { TextModels } from "../../text-model/text-models.ts";
import type { CallFacts } from "../../text-model/text-request.ts";
import { HttpCallFacts } from "../api/call-facts.ts";
import type { RouteCall } from "../api/route.ts";
import { startHttpTrace } from "../http/trace-calls.ts";
import { modelError } from "./openai-error.ts";

export interface OpenAiContext {
  readonly server: ModelServer;
  readonly models: TextModels;
  /** Whether clients may load and unload LoRA adapters; absent: no. */
  readonly allowsLoraUpdates?: boolean | undefined;
}

/** @throws ApiError model_not_found @throws ServerError for a model that is none of text @throws AccessRefusal forbidden */
export async function findModel({ models }: OpenAiContext, name: string, access: Access): Promise<TextModel> {
  expectModel(models, name, access);
  try {
    return await models.find(name);
  } catch (error) {
    throw modelError(error, name);
  }
}

/** @throws ApiError model_not_found @throws ServerError for a model that gives no numbers for texts @throws AccessRefusal forbidden */
export async function findEmbeddingModel(
  { models }: OpenAiContext,
  name: string,
  access: Access,
): Promise<EmbeddingModel> {
  expectModel(models, name, access);
  try {
    return await models.findEmbedding(name);
  } catch (error) {
    throw modelError(error, name);
  }
}

/** @throws ApiError model_not_found @throws ServerError for a model that reads no sound @throws AccessRefusal forbidden */
export async function findSpeechModel({ models }: OpenAiContext, name: string, access: Access): Promise<SpeechModel> {
  expectModel(models, name, access);
  try {
    return await models.findSpeech(name);
  } catch (error) {
    throw modelError(error, name);
  }
}

type Access = RouteCall["access"];

/** A key that may not use a model gets the same answer for one that does not exist. @throws AccessRefusal forbidden */
export function expectModel(models: TextModels, name: string, access: Access): void {
  if (access === undefined) return;
  let own = name;
  try {
    own = models.served(name).name;
  } catch {
    // No such model: the name as it was asked for.
  }
  access.expectModel(own, name);
}

/** Starts the trace of the call and marks that its body has come. @throws AccessRefusal of the caller's key */
export function startCall({ server }: OpenAiContext, model: string, route: RouteCall): CallFacts {
  const { call, requestId, access } = route;
  access?.admit(model);
  startHttpTrace(server.tracing, model, call);
  call.trace?.mark("HTTP_RECV_END", performance.now());
  return new HttpCallFacts(call, requestId, access);
}

/** Seconds since 1970, as OpenAI's objects have them. */
export function nowSeconds(): number {
  return Math.floor(Date.now() / 1000);
}
