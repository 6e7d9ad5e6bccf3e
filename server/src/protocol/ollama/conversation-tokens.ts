/**
 * The member `context` of generations: token ids of the conversation so far, which the next request sends back to go on.
 * Source: Ollama's API reference, "Generate a completion", `context`.
 */
import type { TextModel } from "../../text-model/text-model.ts";
import { invalidParameter, unsupportedParameter } from "../api/api-error.ts";
import type { PreparedChat } from "../openai/chat/prompt.ts";

interface WithContext {
  readonly prepared: PreparedChat;
  /** Token ids of the prompt and an answer; undefined: the model has no tokenizer here. */
  readonly contextOf: ((answer: string) => readonly number[]) | undefined;
}

/** The prompt behind the earlier conversation. @throws ApiError */
export async function withContext(
  model: TextModel,
  prepared: PreparedChat,
  earlier: readonly number[],
): Promise<WithContext> {
  const { tokenizer } = model;
  if (tokenizer === undefined) {
    if (earlier.length === 0) return { prepared, contextOf: undefined };
    const why = `Model '${model.name}' has no tokenizer (parameter 'tokenizer_dir'); send the conversation to /api/chat.`;
    throw unsupportedParameter("context", why);
  }
  expectKnown(earlier, tokenizer.vocabularySize);
  const { prompt } = prepared.request;
  const text = "text" in prompt ? prompt.text : "";
  const before = tokenizer.decode(earlier, { skipSpecialTokens: false });
  // The earlier conversation begins with the start token, if there is one.
  const addSpecialTokens = earlier.length === 0 && prepared.request.addSpecialTokens;
  const request = { ...prepared.request, prompt: { text: before + text }, addSpecialTokens };
  const promptTokens = await model.encode(request.prompt, addSpecialTokens);
  const isOfTokens = model.signature.kind === "tokens";
  return {
    prepared: { ...prepared, request: isOfTokens ? { ...request, prompt: { tokens: promptTokens } } : request },
    contextOf: (answer) => [...promptTokens, ...tokenizer.encode(answer, { addSpecialTokens: false })],
  };
}

function expectKnown(tokens: readonly number[], vocabularySize: number): void {
  const at = tokens.findIndex((id) => id >= vocabularySize);
  if (at < 0) return;
  const text = `Invalid value for 'context[${at}]': expected a token id below ${vocabularySize}, but got ${tokens[at]}.`;
  throw invalidParameter(`context[${at}]`, "invalid_value", text);
}
