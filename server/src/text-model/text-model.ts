/**
 * A model that takes text and gives text, whatever it is made of. Generations run as requests of the model that was
 * named, so that its statistics, limits and traces count them.
 */
import { setImmediate } from "node:timers/promises";
import type { ChatFormat } from "../chat/chat-contract.ts";
import { MAX_PROMPT_BYTES } from "../core/limits.ts";
import type { ServedModel } from "../core/model-server.ts";
import type { Tokenizer } from "../formats/tokenizer/tokenizer.ts";
import { FieldError, unsupportedField } from "./field-error.ts";
import { MeteredGeneration } from "./metered-generation.ts";
import type { ModelAssets } from "./model-assets.ts";
import { parameterText } from "./model-folders.ts";
import { addCommonInputs, type InputFacts, InputList } from "./request-inputs.ts";
import type { OutputRole } from "./tensor-names.ts";
import { TextTensorGeneration } from "./text-generation.ts";
import { TextInferRequest } from "./text-infer-request.ts";
import type { CallFacts, Prompt, TextGeneration, TextRequest } from "./text-request.ts";
import type { TextSignature } from "./text-signature.ts";
import { TokenGeneration } from "./token-generation.ts";
import { addTokenInputs } from "./token-inputs.ts";

/** More than any engine gives: it cuts to its own context. */
const UNBOUNDED_TOKENS = 1_048_576;
/** Texts below this are encoded without a pause. */
const MAX_CHARS_AT_ONCE = 65_536;

/** One of the model's own by its name, or one that was loaded while the server runs by its folder. */
export type AdapterOfName = { readonly adapter: string } | { readonly adapterPath: string };

export class TextModel {
  readonly name: string;
  readonly served: ServedModel;
  readonly signature: TextSignature;
  readonly assets: ModelAssets;
  /** LoRA adapter behind the name. */
  readonly adapter: AdapterOfName | undefined;

  constructor(
    served: ServedModel,
    signature: TextSignature,
    assets: ModelAssets,
    name: string = served.name,
    adapter?: AdapterOfName,
  ) {
    this.name = name;
    this.served = served;
    this.signature = signature;
    this.assets = assets;
    this.adapter = adapter;
  }

  get tokenizer(): Tokenizer | undefined {
    return this.assets.tokenizer;
  }

  get chat(): ChatFormat {
    return this.assets.chat;
  }

  /** The pipeline writes its own prompt around a question. */
  get takesRawText(): boolean {
    return this.assets.hasOwnPrompt;
  }

  get takesImages(): boolean {
    const { served, signature } = this;
    // Our engine reads the folders of vLLM's models without their vision encoders.
    return signature.inputs.has("image") && served.folders?.weights === undefined;
  }

  /** @throws FieldError when the model has no tokenizer, or the text is too long */
  async encode(prompt: Prompt, addSpecialTokens: boolean): Promise<Int32Array> {
    if ("tokens" in prompt) return prompt.tokens;
    const { tokenizer } = this.assets;
    if (tokenizer === undefined) throw this.#noTokenizer();
    if (prompt.text.length > MAX_PROMPT_BYTES) {
      const limit = `expected at most ${MAX_PROMPT_BYTES}`;
      throw new FieldError("value", "prompt", `the prompt has ${prompt.text.length} characters, ${limit}`);
    }
    const steps = tokenizer.encodeSteps(prompt.text, { addSpecialTokens });
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
      if (prompt.text.length > MAX_CHARS_AT_ONCE) await setImmediate();
    }
  }

  /** Tokens of a text alone; 0 without a tokenizer. */
  numTokens(text: string): number {
    return text === "" ? 0 : (this.tokenizer?.encode(text, { addSpecialTokens: false }).length ?? 0);
  }

  /** Nothing runs before the first `next()`. @throws FieldError naming the field that the model cannot honour */
  async generate(request: TextRequest, call: CallFacts): Promise<TextGeneration> {
    const adapted = { ...request, ...this.adapter };
    return this.signature.kind === "tokens" ? this.#generateTokens(adapted, call) : this.#generateText(adapted, call);
  }

  async #generateTokens(request: TextRequest, call: CallFacts): Promise<TextGeneration> {
    const { tokenizer } = this.assets;
    if (tokenizer === undefined) throw this.#noTokenizer();
    if (request.images.length > 0) throw unsupportedField(this.name, "images", "it has no input for images");
    if (request.badWords.length > 0) throw unsupportedField(this.name, "badWords", "it takes none as text");
    const promptTokens = await this.encode(request.prompt, request.addSpecialTokens);
    const limit = this.#limit(request, promptTokens.length);
    const hasStops = request.stop.length > 0 || request.stopTokenIds.length > 0;
    const isStreaming = this.served.decoupled && (request.isStreaming || hasStops);
    const facts = this.#facts(limit, isStreaming);
    const list = new InputList(facts);
    addTokenInputs(list, request, { ...this.assets, tokenizer }, promptTokens);
    addCommonInputs(list, request, facts);
    const excludes = list.has("excludesInput") || parameterText(this.served, "exclude_input_in_output") === "true";
    const generation = new TokenGeneration({
      model: this.served,
      signature: this.signature,
      tokenizer,
      request,
      infer: this.#infer(list, tokenOutputs(request), call.meter?.priority ?? request.priority, call),
      promptTokens,
      limit,
      givesPrompt: !isStreaming && !excludes,
    });
    return metered(generation, call, promptTokens.length + limit);
  }

  async #generateText(request: TextRequest, call: CallFacts): Promise<TextGeneration> {
    this.#expectText(request);
    const { tokenizer } = this.assets;
    const promptText = "text" in request.prompt ? request.prompt.text : this.#decode(request.prompt.tokens);
    const numPromptTokens =
      tokenizer === undefined ? undefined : (await this.encode(request.prompt, request.addSpecialTokens)).length;
    const limit = this.#limit(request, numPromptTokens ?? 0);
    const isStreaming = this.served.decoupled && this.signature.inputs.has("stream");
    const facts = this.#facts(limit === UNBOUNDED_TOKENS ? undefined : limit, isStreaming);
    const list = new InputList(facts);
    this.#addTextInputs(list, request, promptText);
    addCommonInputs(list, request, facts);
    const generation = new TextTensorGeneration({
      model: this.served,
      signature: this.signature,
      tokenizer,
      request,
      infer: this.#infer(list, TEXT_OUTPUTS, call.meter?.priority ?? request.priority, call),
      promptText: isStreaming || list.has("excludesInput") ? "" : promptText,
      numPromptTokens,
      limit,
      countsResponses: isStreaming && this.#isPipeline,
      accumulates: isStreaming && this.#accumulates,
    });
    return metered(generation, call, (numPromptTokens ?? 0) + (limit === UNBOUNDED_TOKENS ? 0 : limit));
  }

  get #accumulates(): boolean {
    const written = parameterText(this.served, "accumulate_tokens") ?? "";
    return this.signature.accumulates || /^(true|yes|1|t)$/i.test(written);
  }

  get #isPipeline(): boolean {
    const { config } = this.served;
    return config.ensemble_scheduling !== undefined || config.backend === "bls";
  }

  #addTextInputs(list: InputList, request: TextRequest, promptText: string): void {
    if (list.has("text")) list.requireText("text", "prompt", [promptText]);
    for (const role of FACT_ROLES) list.offer(role, true);
    for (const input of this.signature.jsonInputs) {
      const text = request.extras.get(input.name);
      if (text !== undefined) list.texts(input, [text]);
    }
    if (request.images.length > 0) list.requireText("image", "images", request.images);
    if (request.badWords.length > 0 && !list.has("samplingJson"))
      list.requireText("badWords", "badWords", request.badWords);
    if (request.logProbs !== undefined) list.offer("wantsScores", true);
    if (request.stop.length > 0 && !this.served.decoupled && list.has("stop")) {
      list.requireText("stop", "prompt", request.stop);
    }
  }

  /** Fields that only a model of tokens can honour. */
  #expectText({ logProbs, promptLogProbs, logitBias, stopTokenIds }: TextRequest): void {
    const why = "only a model that gives token ids can";
    if (promptLogProbs !== undefined) throw unsupportedField(this.name, "promptLogProbs", why);
    if (this.signature.inputs.has("samplingJson")) return; // vLLM's fields
    if (logProbs !== undefined) throw unsupportedField(this.name, "logProbs", why);
    if (logitBias.size > 0) throw unsupportedField(this.name, "logitBias", why);
    if (stopTokenIds.length > 0) throw unsupportedField(this.name, "ignoresEos", why);
  }

  #facts(maxTokens: number | undefined, isStreaming: boolean): InputFacts {
    const { signature, assets } = this;
    return { model: this.name, signature, defaults: assets.defaults, maxTokens, isStreaming };
  }

  /** @throws FieldError when the prompt leaves no room */
  #limit({ maxTokens }: TextRequest, numPromptTokens: number): number {
    const { contextLength } = this.assets;
    if (contextLength === undefined) return maxTokens ?? UNBOUNDED_TOKENS;
    const room = contextLength - numPromptTokens;
    if (room < 1) {
      const text = `This model's maximum context length is ${contextLength} tokens. However, your prompt has ${numPromptTokens} tokens. Please reduce its length.`;
      throw new FieldError("context", "prompt", text);
    }
    return Math.min(maxTokens ?? room, room);
  }

  #infer(list: InputList, roles: readonly OutputRole[], priority: number, call: CallFacts): TextInferRequest {
    const outputs = roles.flatMap((role) => this.signature.outputs.get(role)?.name ?? []);
    return new TextInferRequest({ modelName: this.served.name, inputs: list.tensors, outputs, priority }, call);
  }

  #decode(tokens: Int32Array): string {
    const { tokenizer } = this.assets;
    if (tokenizer === undefined) throw this.#noTokenizer();
    return tokenizer.decode(tokens, { skipSpecialTokens: false });
  }

  #noTokenizer(): FieldError {
    const why = "no tokenizer was found; set the parameter 'tokenizer_dir' in its config.pbtxt";
    return unsupportedField(this.name, "prompt", why);
  }
}

/** Inputs that ask for the outputs below. */
const FACT_ROLES = ["wantsFinishReason", "wantsPromptCount", "wantsOutputCount"] as const;
const TEXT_OUTPUTS: readonly OutputRole[] = [
  "text",
  "scoresJson",
  "finishReason",
  "numPromptTokens",
  "numOutputTokens",
];

function tokenOutputs({ logProbs, promptLogProbs }: TextRequest): OutputRole[] {
  const roles: OutputRole[] = ["tokens", "tokenCounts", "reusedBlocks", "totalBlocks"];
  if (logProbs !== undefined) roles.push("logProbs", "topIds", "topLogProbs");
  if (promptLogProbs !== undefined) roles.push("promptLogProbs", "promptTopIds", "promptTopLogProbs");
  return roles;
}

function metered(generation: TextGeneration, { meter }: CallFacts, maxTokens: number): TextGeneration {
  return meter === undefined ? generation : new MeteredGeneration(generation, meter, maxTokens);
}
