/** POST /tokenize and /detokenize, in the shape of vLLM's clients. Source: vLLM's OpenAI-compatible server, "Tokenizer API". */
import { MAX_TOKEN_ID } from "../../core/limits.ts";
import type { TextModel } from "../../text-model/text-model.ts";
import { ApiError, missingParameter } from "../api/api-error.ts";
import type { RouteCall } from "../api/route.ts";
import {
  anyObject,
  array,
  boolean,
  integer,
  type JsonObject,
  object,
  optional,
  required,
  type Schema,
  string,
} from "../api/schema.ts";
import { MESSAGES, type ReadMessage } from "./chat/messages.ts";
import { renderPrompt } from "./chat/prompt.ts";
import { readTools } from "./chat/tools.ts";
import { findModel, type OpenAiContext } from "./openai-context.ts";

export interface TokenizeRequest {
  readonly model: string;
  readonly prompt?: string | undefined;
  readonly messages?: readonly ReadMessage[] | undefined;
  readonly tools?: readonly JsonObject[] | undefined;
  readonly add_special_tokens?: boolean | undefined;
  readonly add_generation_prompt?: boolean | undefined;
  readonly continue_final_message?: boolean | undefined;
  readonly chat_template_kwargs?: JsonObject | undefined;
  readonly return_token_strs?: boolean | undefined;
}

export const TOKENIZE_REQUEST: Schema<TokenizeRequest> = object<TokenizeRequest>({
  model: required(string()),
  prompt: optional(string()),
  messages: optional(MESSAGES),
  tools: optional(array(anyObject(), 0, 1024)),
  add_special_tokens: optional(boolean()),
  add_generation_prompt: optional(boolean()),
  continue_final_message: optional(boolean()),
  chat_template_kwargs: optional(anyObject()),
  return_token_strs: optional(boolean()),
});

export interface DetokenizeRequest {
  readonly model: string;
  readonly tokens: readonly number[];
}

export const DETOKENIZE_REQUEST: Schema<DetokenizeRequest> = object<DetokenizeRequest>({
  model: required(string()),
  tokens: required(array(integer(0, MAX_TOKEN_ID))),
});

/** @throws ApiError */
export async function tokenize(context: OpenAiContext, body: TokenizeRequest, route: RouteCall): Promise<unknown> {
  const model = await findModel(context, body.model, route.access);
  const tokenizer = expectTokenizer(model);
  const isChat = body.messages !== undefined;
  const text = isChat ? await rendered(model, body, body.messages) : body.prompt;
  if (text === undefined) throw missingParameter("prompt");
  const addSpecialTokens = body.add_special_tokens ?? (!isChat || model.chat.template === undefined);
  const tokens = [...(await model.encode({ text }, addSpecialTokens))];
  return {
    count: tokens.length,
    max_model_len: model.assets.contextLength ?? null,
    tokens,
    token_strs: body.return_token_strs === true ? tokens.map((id) => tokenizer.tokenOf(id) ?? "") : null,
  };
}

/** @throws ApiError */
export async function detokenize(context: OpenAiContext, body: DetokenizeRequest, route: RouteCall): Promise<unknown> {
  const tokenizer = expectTokenizer(await findModel(context, body.model, route.access));
  return { prompt: tokenizer.decode(body.tokens, { skipSpecialTokens: false }) };
}

function rendered(model: TextModel, body: TokenizeRequest, messages: readonly ReadMessage[]): Promise<string> {
  const list = messages.map(({ message }) => message);
  return renderPrompt(model, body, list, readTools({ tools: body.tools }));
}

function expectTokenizer(model: TextModel): NonNullable<TextModel["tokenizer"]> {
  if (model.tokenizer !== undefined) return model.tokenizer;
  throw new ApiError({
    status: 400,
    type: "invalid_request_error",
    code: "no_tokenizer",
    param: "model",
    message: `The model '${model.name}' has no tokenizer that this server can read: set 'tokenizer_dir' in its config.pbtxt.`,
  });
}
