/**
 * A model that turns sound to text: its files, its features, and the decoding of one window, as a request of the model that was named.
 * Source: TensorRT-LLM's tensors; transformers, generation_whisper.py.
 */
import type { ServedModel, TensorMetadata } from "../../core/model-server.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { SpeechFeatures, SpeechTokens } from "../../formats/hf/speech-config.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";
import { valuesTensor } from "../input-tensors.ts";
import { parameterText } from "../model-folders.ts";
import { firstInteger, floats, integers, outputOf, Responses } from "../responses.ts";
import { TextInferRequest } from "../text-infer-request.ts";
import type { CallFacts } from "../text-request.ts";

/** Facts from the folder of a model. */
export interface SpeechFacts {
  readonly features: SpeechFeatures;
  readonly tokens: SpeechTokens;
  readonly tokenizer: Tokenizer;
}

export interface WindowRequest {
  /** [features.numFrames, features.numMels] */
  readonly frames: Float32Array;
  readonly prompt: Int32Array;
  readonly maxTokens: number;
  /** 0: greedy. */
  readonly temperature: number;
}

export interface WindowOutput {
  readonly tokens: Int32Array;
  /** One a token; empty where the model gives none. */
  readonly logProbs: Float32Array;
}

const FRAMES = "encoder_input_features";
const NEEDED = [FRAMES, "decoder_input_ids", "request_output_len"];
const TOKENS = "output_ids";
const LOG_PROBS = "output_log_probs";

/** Why a model is none of speech; undefined when it is one. */
export function speechRefusal({ inputs, outputs }: Pick<ServedModel, "inputs" | "outputs">): string | undefined {
  const missing = NEEDED.filter((name) => !inputs.has(name));
  if (missing.length > 0) return `it has no input ${missing.map((name) => `'${name}'`).join(", ")}`;
  return outputs.has(TOKENS) ? undefined : `it has no output '${TOKENS}'`;
}

export class SpeechModel {
  readonly name: string;
  readonly served: ServedModel;
  readonly facts: SpeechFacts;

  constructor(name: string, served: ServedModel, facts: SpeechFacts) {
    this.name = name;
    this.served = served;
    this.facts = facts;
  }

  /** One window to its tokens, the prompt not among them. @throws ServerError */
  async decode(request: WindowRequest, call: CallFacts): Promise<WindowOutput> {
    const { served } = this;
    const outputs = [TOKENS, "sequence_length", LOG_PROBS].filter((name) => served.outputs.has(name));
    const infer = new TextInferRequest(
      { modelName: served.name, inputs: this.#inputs(request), outputs, priority: call.meter?.priority ?? 0 },
      call,
    );
    const lease = call.meter?.reserve(request.prompt.length + request.maxTokens);
    const responses = new Responses(served, infer);
    const parts: WindowOutput[] = [];
    try {
      for (let next = await responses.next(); next !== undefined; next = await responses.next()) {
        const ids = outputOf(next, served.outputs.get(TOKENS));
        const count = firstInteger(outputOf(next, served.outputs.get("sequence_length")));
        const scores = outputOf(next, served.outputs.get(LOG_PROBS));
        if (ids !== undefined) {
          const tokens = integers(ids);
          parts.push({
            tokens: tokens.subarray(0, count ?? tokens.length),
            logProbs: scores === undefined ? new Float32Array() : floats(scores),
          });
        }
        if (next.final) break;
      }
    } finally {
      await responses.return();
      const outputTokens = parts.reduce((sum, { tokens }) => sum + tokens.length, 0);
      lease?.settle({ promptTokens: request.prompt.length, outputTokens, cachedTokens: 0 });
    }
    return this.#joined(parts, request.prompt.length);
  }

  #joined(parts: readonly WindowOutput[], numPrompt: number): WindowOutput {
    const tokens = Int32Array.from(parts.flatMap((part) => [...part.tokens])).filter((id) => id >= 0);
    const logProbs = Float32Array.from(parts.flatMap((part) => [...part.logProbs]));
    return { tokens: this.#givesPrompt ? tokens.subarray(numPrompt) : tokens, logProbs };
  }

  get #givesPrompt(): boolean {
    const { inputs } = this.served;
    return !inputs.has("exclude_input_in_output") && parameterText(this.served, "exclude_input_in_output") !== "true";
  }

  #inputs({ frames, prompt, maxTokens, temperature }: WindowRequest): readonly Tensor[] {
    const { numFrames, numMels } = this.facts.features;
    const isGreedy = temperature === 0;
    const values: readonly (readonly [name: string, values: ArrayLike<number | boolean>])[] = [
      ["encoder_output_lengths", [numFrames / 2]],
      ["input_lengths", [numFrames]],
      ["decoder_input_ids", prompt],
      ["decoder_input_lengths", [prompt.length]],
      ["request_output_len", [maxTokens]],
      ["exclude_input_in_output", [true]],
      ["return_log_probs", [true]],
      ["runtime_top_k", [isGreedy ? 1 : 0]],
      ...(isGreedy ? [] : [["runtime_top_p", [1]] as const, ["temperature", [temperature]] as const]),
    ];
    return [
      this.#frames(frames, [numFrames, numMels]),
      ...values.flatMap(([name, own]) => {
        const input = this.served.inputs.get(name);
        return input === undefined ? [] : [valuesTensor(input, own, this.#isBatching)];
      }),
    ];
  }

  #frames(frames: Float32Array, shape: readonly [number, number]): Tensor {
    const input = this.served.inputs.get(FRAMES);
    if (input === undefined) throw invalidArgument(`The model '${this.name}' has no input '${FRAMES}'`);
    const flat: TensorMetadata = { ...input, shape: this.#isBatching ? [-1, -1] : [-1] };
    return { ...valuesTensor(flat, frames, this.#isBatching), shape: this.#isBatching ? [1, ...shape] : shape };
  }

  get #isBatching(): boolean {
    return this.served.config.max_batch_size > 0;
  }
}
