/** Log-probabilities of tokens, from the tensors of TensorRT-LLM's engine model. */
import type { InferResponse } from "../core/infer-response.ts";
import type { Tokenizer } from "../formats/tokenizer/tokenizer.ts";
import { floats, integers, outputOf } from "./responses.ts";
import type { OutputRole } from "./tensor-names.ts";
import type { TextRequest, TokenLogProb, TokenScore } from "./text-request.ts";
import type { TextSignature } from "./text-signature.ts";

const NO_FLOATS = new Float32Array(0);
const NO_IDS = new Int32Array(0);

export class TokenScores {
  readonly #tokenizer: Tokenizer;
  readonly #signature: TextSignature;
  readonly #request: TextRequest;
  readonly #promptTokens: Int32Array;
  #prompt: readonly TokenScore[] | undefined;

  constructor(tokenizer: Tokenizer, signature: TextSignature, request: TextRequest, promptTokens: Int32Array) {
    this.#tokenizer = tokenizer;
    this.#signature = signature;
    this.#request = request;
    this.#promptTokens = promptTokens;
  }

  /** Scores of the response's new tokens. */
  read(response: InferResponse, ids: Int32Array): readonly TokenScore[] {
    this.#readPrompt(response);
    if (this.#request.logProbs === undefined) return [];
    const values = this.#floats(response, "logProbs");
    const tops = this.#tops(response, "topIds", "topLogProbs", ids.length, this.#request.logProbs);
    return Array.from(ids, (id, i) => ({ ...this.#token(id, values[i] ?? 0), top: tops[i] ?? [] }));
  }

  /** Once. */
  takePrompt(): readonly TokenScore[] | undefined {
    const scores = this.#prompt;
    this.#prompt = undefined;
    return scores;
  }

  /** The first token of a prompt follows nothing: it has no score. */
  #readPrompt(response: InferResponse): void {
    const count = this.#request.promptLogProbs;
    if (count === undefined) return;
    const values = this.#floats(response, "promptLogProbs");
    if (values.length === 0) return;
    const tokens = this.#promptTokens;
    const tops = this.#tops(response, "promptTopIds", "promptTopLogProbs", tokens.length - 1, count);
    this.#prompt = Array.from(tokens, (id, i) => ({
      ...this.#token(id, i === 0 ? Number.NaN : (values[i - 1] ?? 0)),
      top: tops[i - 1] ?? [],
    }));
  }

  #tops(
    response: InferResponse,
    idsRole: OutputRole,
    valuesRole: OutputRole,
    numTokens: number,
    count: number,
  ): readonly (readonly TokenLogProb[])[] {
    const tensor = outputOf(response, this.#signature.outputs.get(idsRole));
    const ids = tensor === undefined || count === 0 ? NO_IDS : integers(tensor);
    const values = this.#floats(response, valuesRole);
    const width = numTokens === 0 ? 0 : Math.floor(ids.length / numTokens);
    return Array.from({ length: numTokens }, (_, token) =>
      Array.from({ length: Math.min(width, count) }, (_, i) => {
        const at = token * width + i;
        return this.#token(ids[at] ?? 0, values[at] ?? 0);
      }),
    );
  }

  #floats(response: InferResponse, role: OutputRole): Float32Array {
    const tensor = outputOf(response, this.#signature.outputs.get(role));
    return tensor === undefined ? NO_FLOATS : floats(tensor);
  }

  #token(id: number, logProb: number): TokenLogProb {
    const bytes = this.#tokenizer.bytesOf(id) ?? Buffer.from(this.#tokenizer.tokenOf(id) ?? "");
    return { id, text: new TextDecoder().decode(bytes), bytes, logProb };
  }
}
