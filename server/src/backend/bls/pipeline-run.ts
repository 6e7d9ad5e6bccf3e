/**
 * One request on its way through a pipeline: text to tokens, tokens to more tokens, those to text, by calls of the three
 * models that do it. The client's id and cancellation reach the engine. Knows how the models call their tensors, and
 * neither how they work nor where they run.
 */
import type { InferRequest } from "../../core/infer-request.ts";
import { NO_SEQUENCE } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import type { ModelSignature } from "../../core/model-signature.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { BackendRequest, ModelCaller } from "../backend.ts";
import { intValues, textRows } from "../tokenizer/tensor-values.ts";
import type { BlsSettings } from "./bls-settings.ts";
import { generate } from "./draft-target.ts";
import { PipelineTexts } from "./pipeline-texts.ts";
import {
  engineInputOf,
  PREPROCESSED,
  PREPROCESSED_DECODER,
  renamed,
  requiredOutputs,
  TO_POSTPROCESSING,
  TO_PREPROCESSING,
} from "./tensor-names.ts";

/** Engine outputs that postprocessing needs. */
const TOKEN_OUTPUTS = ["output_ids", "sequence_length", "batch_index", "sequence_index"];
/** Inputs that the pipeline itself reads. */
const OWN_INPUTS: ReadonlySet<string> = new Set(["num_draft_tokens", "use_draft_logits"]);
const IMAGES = ["image_input", "image_bytes_input", "image_url_input", "video_bytes_input"];
const TEXT_OUTPUT = "text_output";

export interface Pipeline {
  readonly models: ModelCaller;
  readonly settings: BlsSettings;
  /** The pipeline's own model has a batch dimension. */
  readonly isBatching: boolean;
}

export class PipelineRun {
  readonly #pipeline: Pipeline;
  readonly #outer: BackendRequest;
  readonly #inputs: ReadonlyMap<string, Tensor>;
  readonly #abort = new AbortController();
  /** The state of streams at the model that makes text. */
  readonly #key = {};

  constructor(pipeline: Pipeline, outer: BackendRequest) {
    this.#pipeline = pipeline;
    this.#outer = outer;
    this.#inputs = new Map(outer.request.inputs.map((input) => [input.name, input]));
  }

  /** Answers the request. @throws ServerError of the model that failed */
  async run(): Promise<void> {
    const { signal } = this.#outer.request;
    const abort = (): void => this.#abort.abort(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    try {
      await this.#run();
    } finally {
      signal.removeEventListener("abort", abort);
      this.#abort.abort(); // no effect on what has ended
    }
  }

  async #run(): Promise<void> {
    const { models, settings } = this.#pipeline;
    const isStreaming = this.#flag("stream");
    if (isStreaming && !settings.isDecoupled) {
      throw invalidArgument("Streaming is only supported in decoupled mode.");
    }
    for (const name of IMAGES) this.#refuseImage(name);
    const engine = models.signature(settings.engine);
    const tokens = await this.#preprocess();
    const request = this.#request(settings.engine, this.#engineInputs(tokens, engine), this.#engineOutputs(engine), {
      key: this.#key,
      tokens: this.#outer.request.origin.tokens,
      isLast: true,
    });
    const texts = await this.#texts(tokens, isStreaming);
    const numDraftTokens = this.#int("num_draft_tokens") ?? 0;
    await this.#answer(generate(models, settings, { request, numDraftTokens }), texts);
  }

  async #answer(responses: AsyncIterable<InferResponse>, texts: PipelineTexts): Promise<void> {
    let answer: readonly Tensor[] = [];
    let isOver = false;
    for await (const response of responses) {
      if (response.error !== undefined) throw response.error;
      const outputs = response.outputs.length === 0 ? undefined : await this.#outputs(response, texts);
      isOver = response.final || texts.allStopped;
      if (outputs !== undefined) answer = await this.#keepOrSend(answer, outputs, isOver);
      if (isOver) break;
    }
    if (this.#outer.request.signal.aborted) throw new ServerError("cancelled", "Request was cancelled");
    this.#outer.respond({ outputs: answer, final: true });
  }

  /** The response that is left to send at the end: the last one, or the only one. */
  async #keepOrSend(kept: readonly Tensor[], outputs: readonly Tensor[], isOver: boolean): Promise<readonly Tensor[]> {
    if (isOver && kept.length === 0) return outputs;
    if (!this.#pipeline.settings.isDecoupled) {
      if (kept.length > 0) throw notOne();
      return outputs;
    }
    this.#outer.respond({ outputs, final: false });
    await this.#outer.drained();
    return [];
  }

  async #preprocess(): Promise<InferResponse> {
    const { models, settings } = this.#pipeline;
    const target = models.signature(settings.preprocessing);
    const inputs: Tensor[] = [];
    for (const [name, input] of TO_PREPROCESSING) {
      const tensor = this.#inputs.get(name);
      if (tensor === undefined) continue;
      expectInput(target, input, name);
      inputs.push(renamed(tensor, input, this.#pipeline.isBatching, target));
    }
    return this.#one(this.#request(settings.preprocessing, inputs, [], { key: this.#key, isLast: true }));
  }

  #engineInputs({ outputs }: InferResponse, engine: ModelSignature): Tensor[] {
    const { models, settings, isBatching } = this.#pipeline;
    const isBatched = models.signature(settings.preprocessing).maxBatchSize > 0;
    const inputs: Tensor[] = [];
    for (const [name, tensor] of this.#inputs) {
      if (TO_PREPROCESSING.has(name) || OWN_INPUTS.has(name)) continue;
      inputs.push(renamed(tensor, engineInputOf(name, engine), isBatching, engine));
    }
    const hasDecoderPrompt = this.#inputs.has("decoder_text_input");
    for (const tensor of outputs) {
      const decoderInput = hasDecoderPrompt ? PREPROCESSED_DECODER.get(tensor.name) : undefined;
      const name = PREPROCESSED.get(tensor.name) ?? decoderInput;
      if (name === undefined || !engine.inputs.has(name)) continue;
      inputs.push(renamed(tensor, name, isBatched, engine));
    }
    return inputs;
  }

  #engineOutputs(engine: ModelSignature): string[] {
    const { models, settings } = this.#pipeline;
    const needed = requiredOutputs(models.signature(settings.postprocessing));
    const wanted = [...TOKEN_OUTPUTS, ...needed, ...this.#outer.outputNames];
    return [...new Set(wanted)].filter((name) => engine.outputs.has(name));
  }

  /** Undefined when all that the response is about had ended before. */
  async #outputs(response: InferResponse, texts: PipelineTexts): Promise<readonly Tensor[] | undefined> {
    const row = indexOf(response, "batch_index");
    const sequence = indexOf(response, "sequence_index");
    if (texts.isStopped(row, sequence)) return undefined;
    const outputs = response.outputs.filter(({ name }) => this.#outer.outputNames.includes(name));
    if (!this.#outer.outputNames.includes(TEXT_OUTPUT)) return outputs;
    const text = await this.#postprocess(response);
    return [{ ...texts.apply(text, this.#numRows(response), row, sequence), name: TEXT_OUTPUT }, ...outputs];
  }

  /** Rows of the client's batch in one response of the engine, whose ids are [rows, beams, length]. */
  #numRows(response: InferResponse): number {
    const { models, settings } = this.#pipeline;
    const isBatched = models.signature(settings.engine).maxBatchSize > 0;
    return isBatched ? (tensorOf(response, "output_ids").shape[0] ?? 1) : 1;
  }

  async #postprocess({ outputs, final }: InferResponse): Promise<Tensor> {
    const { models, settings } = this.#pipeline;
    const target = models.signature(settings.postprocessing);
    const isBatched = models.signature(settings.engine).maxBatchSize > 0;
    const inputs: Tensor[] = [];
    for (const [output, input] of TO_POSTPROCESSING) {
      const tensor = outputs.find(({ name }) => name === output);
      if (tensor !== undefined && target.inputs.has(input)) inputs.push(renamed(tensor, input, isBatched, target));
    }
    const origin = { key: this.#key, isLast: final };
    const answer = await this.#one(this.#request(settings.postprocessing, inputs, ["OUTPUT"], origin));
    return tensorOf(answer, "OUTPUT");
  }

  async #texts(tokens: InferResponse, isStreaming: boolean): Promise<PipelineTexts> {
    const { accumulates } = this.#pipeline.settings;
    const { batchSize } = this.#outer;
    const tensor = this.#inputs.get("stop_words");
    const stopWords = tensor === undefined ? Array.from({ length: batchSize }, () => []) : textRows(tensor, batchSize);
    const hasWords = stopWords.some((words) => words.some((word) => word !== ""));
    return new PipelineTexts({
      stopWords,
      prompts: hasWords && !isStreaming ? await this.#prompts(tokens) : [],
      accumulates,
      numSequences: (this.#int("beam_width") ?? 1) > 1 ? 1 : (this.#int("num_return_sequences") ?? 1),
    });
  }

  /** The prompts as they come back as text, which need not be as they came. */
  async #prompts(tokens: InferResponse): Promise<readonly string[]> {
    const { models, settings } = this.#pipeline;
    const target = models.signature(settings.postprocessing);
    if (requiredOutputs(target).length > 0) return []; // it takes what only an engine can give
    const isBatched = models.signature(settings.preprocessing).maxBatchSize > 0;
    const ids = tensorOf(tokens, "INPUT_ID");
    const length = tensorOf(tokens, "REQUEST_INPUT_LEN");
    const width = ids.shape.at(-1) ?? 0;
    const rows = isBatched ? [ids.shape[0] ?? 1] : [];
    const inputs = [
      renamed({ ...ids, shape: [...rows, 1, width] }, "TOKENS_BATCH", isBatched, target),
      renamed(length, "SEQUENCE_LENGTH", isBatched, target),
    ];
    const origin = { key: {}, isLast: true };
    const answer = await this.#one(this.#request(settings.postprocessing, inputs, ["OUTPUT"], origin));
    return textRows(tensorOf(answer, "OUTPUT"), this.#outer.batchSize).map(([text = ""]) => text);
  }

  async #one(request: InferRequest): Promise<InferResponse> {
    for await (const response of this.#pipeline.models.infer(request)) {
      if (response.error !== undefined) throw response.error;
      return response;
    }
    throw new ServerError("internal", `model '${request.modelName}' gave no response`);
  }

  #request(
    modelName: string,
    inputs: readonly Tensor[],
    outputs: readonly string[],
    origin: InferRequest["origin"],
  ): InferRequest {
    const { request } = this.#outer;
    return {
      modelName,
      modelVersion: "",
      id: request.id,
      inputs,
      outputs,
      parameters: request.parameters,
      sequence: NO_SEQUENCE,
      priority: request.priority,
      timeoutUs: request.timeoutUs,
      signal: this.#abort.signal,
      origin,
      arrivalMs: performance.now(),
      trace: request.trace?.child(modelName),
    };
  }

  #refuseImage(name: string): void {
    if (!this.#inputs.has(name)) return;
    const { encoders } = this.#pipeline.settings;
    const cause =
      encoders === undefined
        ? "the model has no encoders (parameter 'multimodal_encoders_name')"
        : `model '${encoders}' is not called`;
    const fix = "send the encoder's rows as 'prompt_embedding_table' instead";
    throw new ServerError("unsupported", `input '${name}' is not supported: ${cause}; ${fix}`);
  }

  #flag(name: string): boolean {
    return (this.#inputs.get(name)?.data ?? []).some((byte) => byte !== 0);
  }

  #int(name: string): number | undefined {
    const tensor = this.#inputs.get(name);
    return tensor === undefined ? undefined : intValues(tensor)[0];
  }
}

function expectInput(target: ModelSignature, input: string, name: string): void {
  if (target.inputs.has(input)) return;
  throw invalidArgument(
    `input '${name}' needs the input '${input}' of model '${target.modelName}', which has none of that name`,
  );
}

function indexOf(response: InferResponse, name: string): number {
  const tensor = response.outputs.find((output) => output.name === name);
  return tensor === undefined ? 0 : (intValues(tensor)[0] ?? 0);
}

function tensorOf(response: InferResponse, name: string): Tensor {
  const tensor = response.outputs.find((output) => output.name === name);
  if (tensor !== undefined) return tensor;
  throw new ServerError("internal", `model '${response.modelName}' gave no output '${name}'`);
}

function notOne(): ServerError {
  return invalidArgument("the request has several answers (rows or sequences), which needs a model in decoupled mode");
}
