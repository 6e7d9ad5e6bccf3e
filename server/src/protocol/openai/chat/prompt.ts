/**
 * From the messages and tools of a chat request to the request of a text model, and the parser of its answer.
 * Source: transformers' chat templating guide.
 */
import type {
  ChatMessage,
  ChatTemplate,
  OutputGuide,
  OutputParser,
  TemplateVariables,
  ToolChoice,
} from "../../../chat/chat-contract.ts";
import { isReasoningOpen } from "../../../chat/reasoning.ts";
import { PlainParser } from "../../../chat/tools/plain-parser.ts";
import { unsupportedField } from "../../../text-model/field-error.ts";
import { renderPlain } from "../../../text-model/plain-chat.ts";
import { BudgetedModel, type Generator } from "../../../text-model/reasoning-budget.ts";
import type { TextModel } from "../../../text-model/text-model.ts";
import type { TextRequest } from "../../../text-model/text-request.ts";
import { unsupportedParameter } from "../../api/api-error.ts";
import { textRequestOf } from "../generation-fields.ts";
import type { ChatFinish } from "./chat-choice.ts";
import type { ChatRequest } from "./request.ts";
import { withStrictRoles } from "./strict-roles.ts";
import { readTools, type Tools } from "./tools.ts";

export interface PreparedChat {
  /** The model, within the budget of its reasoning. */
  readonly generator: Generator;
  readonly request: TextRequest;
  /** OpenAI ends the call of a named tool with "stop", and all others with "tool_calls". */
  readonly callFinish: ChatFinish;
  /** Parsers have state: one for each choice. */
  openParser(): OutputParser;
}

/** `tools`: those of another API, read by its rules. @throws ApiError @throws ServerError of the template */
export async function prepareChat(
  model: TextModel,
  body: ChatRequest,
  tools: Tools = readTools(body),
): Promise<PreparedChat> {
  const { chat } = model;
  if (!model.takesImages && body.messages.some(({ images }) => images.length > 0)) {
    throw unsupportedField(model.name, "images", "it has no input for images");
  }
  const messages = body.messages.map(({ message }) => withKnownRole(message, chat.tools.name));
  const prompt = await renderPrompt(model, body, messages, tools);
  const request = chatTextRequest(model, body, tools, prompt);
  const isSplit = tools.list.length > 0 || chat.reasoning !== undefined;
  const options = { prompt, tools: tools.list, choice: tools.choice };
  const generator = budgeted(model, body, tools, prompt, request);
  const callFinish = typeof tools.choice === "object" ? "stop" : "tool_calls";
  return { generator, request, callFinish, openParser: () => (isSplit ? chat.openParser(options) : new PlainParser()) };
}

/** A guide of calls knows whether reasoning is open; the form of a whole answer stays as it is. */
function budgeted(
  model: TextModel,
  body: ChatRequest,
  tools: Tools,
  prompt: string,
  { guide }: TextRequest,
): Generator {
  const { open, close } = model.chat.reasoning ?? {};
  const maxTokens = body.thinking_token_budget;
  if (maxTokens === undefined || open === undefined || close === undefined) return model;
  const isOfCalls = guide?.type === "structural_tag" && body.response_format === undefined;
  return new BudgetedModel(model, {
    maxTokens,
    open,
    close,
    isOpen: isReasoningOpen(prompt, { open, close }),
    prompt,
    guideAfter: (text) => (isOfCalls ? callGuide(model, tools, text) : guide),
  });
}

/** Harmony alone tells developers from the system; other templates refuse the role or drop the message. */
function withKnownRole(message: ChatMessage, format: string): ChatMessage {
  const isKnown = message.role !== "developer" || /harmony|gpt_oss/.test(format);
  return isKnown ? message : { ...message, role: "system" };
}

/** Rendered text of the conversation. */
export async function renderPrompt(
  model: TextModel,
  body: Pick<
    ChatRequest,
    | "add_generation_prompt"
    | "continue_final_message"
    | "chat_template_kwargs"
    | "reasoning_effort"
    | "documents"
    | "verbosity"
  >,
  messages: readonly ChatMessage[],
  tools: Tools,
): Promise<string> {
  const continues = body.continue_final_message === true;
  const isUsed = tools.list.length > 0 && tools.choice !== "none";
  const variables = {
    ...(body.reasoning_effort === undefined ? {} : { reasoning_effort: body.reasoning_effort }),
    ...(body.verbosity === undefined ? {} : { verbosity: body.verbosity }),
    ...(body.documents === undefined ? {} : { documents: body.documents }),
    ...body.chat_template_kwargs,
    messages,
    ...(isUsed ? { tools: tools.list } : {}),
    addGenerationPrompt: continues ? false : (body.add_generation_prompt ?? true),
  };
  if (model.takesRawText) return messages.map(textOf).join("\n");
  const text =
    model.chat.template === undefined ? renderPlain(variables) : await renderAnyRoles(model.chat.template, variables);
  return continues ? upToLastText(text, messages.at(-1)) : text;
}

/** A template that refuses the conversation gets it once more, by the strictest rules. @throws its first refusal */
async function renderAnyRoles(template: ChatTemplate, variables: TemplateVariables): Promise<string> {
  try {
    return await template.render(variables);
  } catch (refusal) {
    const messages = withStrictRoles(variables.messages);
    if (messages === undefined) throw refusal;
    return template.render({ ...variables, messages }).catch(() => Promise.reject(refusal));
  }
}

function textOf({ content }: ChatMessage): string {
  if (content === null || typeof content === "string") return content ?? "";
  return content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}

/** The final message goes on: whatever the template closes it with is cut off. */
function upToLastText(rendered: string, last: ChatMessage | undefined): string {
  const text = typeof last?.content === "string" ? last.content.trimEnd() : "";
  const at = text === "" ? -1 : rendered.lastIndexOf(text);
  return at < 0 ? rendered : rendered.slice(0, at + text.length);
}

function chatTextRequest(model: TextModel, body: ChatRequest, tools: Tools, prompt: string): TextRequest {
  const shared = textRequestOf(body);
  const { chat } = model;
  const format = shared.guide;
  // A form for the whole answer leaves no room for a call, unless a call is asked for.
  const isForced = tools.choice === "required" || typeof tools.choice === "object";
  const ownGuide = format === undefined || isForced ? callGuide(model, tools, prompt) : undefined;
  return {
    prompt: { text: prompt },
    // The template writes the start token where the model wants one.
    addSpecialTokens: body.add_special_tokens ?? chat.template === undefined,
    maxTokens: body.max_completion_tokens ?? body.max_tokens,
    minTokens: shared.minTokens,
    images: body.messages.flatMap(({ images }) => images),
    sampling: shared.sampling,
    stop: shared.stop,
    stopTokenIds: shared.stopTokenIds,
    includesStop: shared.includesStop,
    ignoresEos: shared.ignoresEos,
    badWords: shared.badWords,
    logitBias: shared.logitBias,
    logProbs: body.logprobs === true ? (body.top_logprobs ?? 0) : undefined,
    promptLogProbs: undefined,
    guide: ownGuide ?? format,
    adapter: shared.adapter,
    adapterPath: shared.adapterPath,
    cacheSalt: shared.cacheSalt,
    priority: shared.priority,
    isStreaming: shared.isStreaming,
    skipsSpecialTokens: shared.skipsSpecialTokens,
    keptTokens: [...(tools.list.length > 0 ? chat.tools.specialTokens : []), ...(chat.reasoning?.specialTokens ?? [])],
    extras: model.signature.jsonInputs.length === 0 ? shared.extras : jsonExtras(body, tools, shared.extras),
  };
}

/** For models with inputs of those names. */
function jsonExtras(body: ChatRequest, tools: Tools, more: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const extras = new Map([...more, ["messages", JSON.stringify(body.messages.map(({ message }) => message))]]);
  if (tools.list.length === 0) return extras;
  return extras.set("tools", JSON.stringify(tools.list)).set("tool_choice", JSON.stringify(choiceField(tools.choice)));
}

/** As OpenAI's clients send it. */
function choiceField(choice: ToolChoice): unknown {
  return typeof choice === "string" ? choice : { type: "function", function: { name: choice.name } };
}

/** A model without guides may call tools as it likes; a call that is required it must be able to promise. */
function callGuide(model: TextModel, tools: Tools, prompt: string): OutputGuide | undefined {
  const { inputs, jsonInputs } = model.signature;
  if (inputs.has("guideType")) {
    return model.chat.tools.grammarFor(tools.list, tools.choice, tools.isParallel, prompt, tools.inputs);
  }
  const isPromised = jsonInputs.some(({ name }) => name === "tool_choice");
  if (tools.choice === "auto" || tools.choice === "none" || isPromised) return undefined;
  const why = `Model '${model.name}' has no input for a guide, which alone makes it call a tool.`;
  throw unsupportedParameter("tool_choice", why);
}
