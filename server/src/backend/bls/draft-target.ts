/**
 * The tokens of a pipeline: from the engine model alone, or verified against a draft model. Drafting only predicts the
 * engine's output. The final call is the client's own request with the drafts attached, so the text is the same as
 * without drafts.
 */
import type { InferRequest } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import type { ModelSignature } from "../../core/model-signature.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { ModelCaller } from "../backend.ts";
import { intValues } from "../tokenizer/tensor-values.ts";
import type { BlsSettings } from "./bls-settings.ts";

export interface Generation {
  /** The request to the engine model, complete. */
  readonly request: InferRequest;
  /** Tokens to draft at a time; 0 = no speculation. */
  readonly numDraftTokens: number;
}

/** The request of one round. */
interface Round {
  readonly model: string;
  readonly prompt: Int32Array;
  readonly drafts: Int32Array;
  readonly maxTokens: number;
}

/** The engine's responses. @throws ServerError when speculation is asked for and cannot be */
export function generate(
  models: ModelCaller,
  settings: BlsSettings,
  { request, numDraftTokens }: Generation,
): AsyncIterable<InferResponse> {
  if (numDraftTokens <= 0) return models.infer(request);
  if (settings.draftEngine === undefined) {
    throw invalidArgument("cannot perform speculative decoding without draft model");
  }
  const drafting = new Drafting(models, request, settings.draftEngine);
  return drafting.run(numDraftTokens);
}

class Drafting {
  readonly #models: ModelCaller;
  readonly #request: InferRequest;
  readonly #draftModel: string;
  readonly #prompt: Int32Array;
  readonly #maxTokens: number;
  #numDrafted = 0;
  #numAccepted = 0;

  constructor(models: ModelCaller, request: InferRequest, draftModel: string) {
    this.#models = models;
    this.#request = request;
    this.#draftModel = draftModel;
    for (const name of ["streaming", "return_context_logits"]) {
      if (intOf(request, name) !== 0) throw refusal(`with '${name}'`);
    }
    const ids = inputOf(request, "input_ids");
    if (ids.shape.length > 1 && (ids.shape[0] ?? 1) > 1) throw refusal("with more than one row");
    this.#prompt = intValues(ids).slice(0, intOf(request, "input_lengths"));
    this.#maxTokens = intOf(request, "request_output_len");
  }

  async *run(numDraftTokens: number): AsyncIterable<InferResponse> {
    const found = await this.#findOut(numDraftTokens);
    const isDraftable = this.#models.signature(this.#request.modelName).inputs.has("draft_input_ids");
    if (!isDraftable) throw refusal(`of model '${this.#request.modelName}', which has no input 'draft_input_ids'`);
    const inputs = found.length === 0 ? this.#request.inputs : [...this.#request.inputs, this.#drafts(found)];
    for await (const response of this.#models.infer({ ...this.#request, inputs })) {
      yield { ...response, outputs: response.outputs.map((output) => this.#withOwnFigures(output)) };
    }
  }

  /** The engine's output, or as much of it as drafting made progress with. */
  async #findOut(numDraftTokens: number): Promise<Int32Array> {
    let tokens = this.#prompt;
    const end = this.#prompt.length + this.#maxTokens;
    while (tokens.length < end) {
      const count = Math.min(numDraftTokens, end - tokens.length);
      const drafts = await this.#ask({ model: this.#draftModel, prompt: tokens, drafts: NONE, maxTokens: count });
      const maxTokens = Math.min(count + 1, end - tokens.length);
      const checked = await this.#ask({ model: this.#request.modelName, prompt: tokens, drafts, maxTokens });
      this.#numDrafted += drafts.length;
      this.#numAccepted += numEqual(drafts, checked);
      tokens = joined(tokens, checked);
      if (checked.length < maxTokens) break; // it has come to its end
    }
    return tokens.slice(this.#prompt.length);
  }

  /** New tokens only. */
  async #ask({ model, prompt, drafts, maxTokens }: Round): Promise<Int32Array> {
    const signature = this.#models.signature(model);
    const changed = new Map<string, Tensor>();
    const set = (tensor: Tensor): void => void changed.set(tensor.name, tensor);
    set(withInts(inputOf(this.#request, "input_ids"), prompt));
    set(withInts(inputOf(this.#request, "input_lengths"), Int32Array.of(prompt.length)));
    set(withInts(inputOf(this.#request, "request_output_len"), Int32Array.of(maxTokens)));
    const excludes = signature.inputs.has("exclude_input_in_output");
    if (excludes) set(this.#flag("exclude_input_in_output"));
    if (drafts.length > 0) set(this.#drafts(drafts));
    const kept = this.#request.inputs.filter(({ name }) => !changed.has(name) && signature.inputs.has(name));
    const outputs = ["output_ids", "sequence_length"].filter((name) => signature.outputs.has(name));
    const request = { ...this.#request, modelName: model, inputs: [...kept, ...changed.values()], outputs };
    const ids = await this.#one(request, signature);
    return excludes ? ids : ids.slice(prompt.length);
  }

  async #one(request: InferRequest, { modelName }: ModelSignature): Promise<Int32Array> {
    for await (const { error, outputs } of this.#models.infer(request)) {
      if (error !== undefined) throw error;
      const ids = outputs.find(({ name }) => name === "output_ids");
      const length = outputs.find(({ name }) => name === "sequence_length");
      if (ids !== undefined) return intValues(ids).slice(0, length && intValues(length)[0]);
    }
    throw new ServerError("internal", `model '${modelName}' gave no tokens`);
  }

  #drafts(ids: Int32Array): Tensor {
    return { ...withInts(inputOf(this.#request, "input_ids"), ids), name: "draft_input_ids" };
  }

  #flag(name: string): Tensor {
    const { shape } = inputOf(this.#request, "input_lengths");
    return { name, datatype: "BOOL", shape, data: Uint8Array.of(1) };
  }

  /** The last answer checks what is known to be right: the figures that tell something are those of the rounds. */
  #withOwnFigures(output: Tensor): Tensor {
    const rate = this.#numDrafted === 0 ? 0 : this.#numAccepted / this.#numDrafted;
    if (output.name === "total_draft_tokens") return withInts(output, Int32Array.of(this.#numDrafted));
    if (output.name === "total_accepted_draft_tokens") return withInts(output, Int32Array.of(this.#numAccepted));
    if (output.name !== "acceptance_rate") return output;
    return { ...output, data: new Uint8Array(Float32Array.of(rate).buffer) };
  }
}

const NONE = new Int32Array(0);

function inputOf({ inputs, modelName }: InferRequest, name: string): Tensor {
  const found = inputs.find((input) => input.name === name);
  if (found !== undefined) return found;
  throw invalidArgument(`speculative decoding needs the input '${name}' of model '${modelName}'`);
}

/** 0 when the request does not have it. */
function intOf({ inputs }: InferRequest, name: string): number {
  const tensor = inputs.find((input) => input.name === name);
  if (tensor === undefined) return 0;
  return tensor.datatype === "BOOL" ? (tensor.data[0] ?? 0) : (intValues(tensor)[0] ?? 0);
}

/** The tensor with other values in its last dimension. */
function withInts(tensor: Tensor, values: Int32Array): Tensor {
  const data = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return { ...tensor, shape: [...tensor.shape.slice(0, -1), values.length], data };
}

function joined(a: Int32Array, b: Int32Array): Int32Array {
  const both = new Int32Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

function numEqual(a: Int32Array, b: Int32Array): number {
  let count = 0;
  while (count < a.length && a[count] === b[count]) count += 1;
  return count;
}

function refusal(what: string): ServerError {
  return new ServerError("unsupported", `speculative decoding (input 'num_draft_tokens') is not supported ${what}`);
}
