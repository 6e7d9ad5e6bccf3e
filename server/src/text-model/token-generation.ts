/** A generation by a model of token ids: its tokens become text here, with stops, scores and counts. */
import type { InferResponse } from "../core/infer-response.ts";
import type { ServedModel } from "../core/model-server.ts";
import type { Detokenizer } from "../formats/tokenizer/detokenizer.ts";
import type { Tokenizer } from "../formats/tokenizer/tokenizer.ts";
import { ResponseGeneration } from "./response-generation.ts";
import { firstInteger, integers, outputOf, Responses } from "./responses.ts";
import { StopScan } from "./stop-scan.ts";
import type { TextInferRequest } from "./text-infer-request.ts";
import type { FinishReason, TextChunk, TextRequest, TokenScore } from "./text-request.ts";
import type { TextSignature } from "./text-signature.ts";
import { TokenScores } from "./token-scores.ts";

export interface TokenGenerationParts {
  readonly model: ServedModel;
  readonly signature: TextSignature;
  readonly tokenizer: Tokenizer;
  readonly request: TextRequest;
  readonly infer: TextInferRequest;
  readonly promptTokens: Int32Array;
  /** Output tokens after which the answer was cut. */
  readonly limit: number;
  /** The model gives the prompt back in front of its output. */
  readonly givesPrompt: boolean;
}

const NO_SCORES: readonly TokenScore[] = [];

export class TokenGeneration extends ResponseGeneration {
  readonly #parts: TokenGenerationParts;
  readonly #detokenizer: Detokenizer;
  readonly #scan: StopScan;
  readonly #scores: TokenScores | undefined;
  readonly #stopIds: ReadonlySet<number>;
  #numOutput = 0;
  #cachedTokens = 0;

  constructor(parts: TokenGenerationParts) {
    super(new Responses(parts.model, parts.infer));
    const { request, tokenizer, signature } = parts;
    this.#parts = parts;
    this.#scan = new StopScan(request.stop, request.includesStop);
    this.#stopIds = new Set(request.stopTokenIds);
    const keptIds = new Set(request.keptTokens.flatMap((token) => tokenizer.idOf(token) ?? []));
    this.#detokenizer = tokenizer.createDetokenizer({ skipSpecialTokens: request.skipsSpecialTokens, keptIds });
    const wantsScores = request.logProbs !== undefined || request.promptLogProbs !== undefined;
    this.#scores = wantsScores ? new TokenScores(tokenizer, signature, request, parts.promptTokens) : undefined;
  }

  protected override end(): TextChunk {
    return this.#finish("", NO_SCORES, "stop");
  }

  /** Undefined: nothing to show yet. */
  protected override read(response: InferResponse): TextChunk | undefined {
    const all = this.#ids(response);
    const stopAt = this.#stopIds.size === 0 ? -1 : all.findIndex((id) => this.#stopIds.has(id));
    const ids = stopAt < 0 ? all : all.subarray(0, stopAt);
    this.#numOutput += ids.length;
    this.#countCached(response);
    const scores = this.#scores?.read(response, ids) ?? NO_SCORES;
    const text = this.#detokenizer.push(ids);
    const { text: shown, isStopped, stop } = this.#scan.push(text);
    if (isStopped) return this.#over(shown, scores, "stop", stop);
    if (stopAt >= 0) return this.#finish(shown, scores, "stop");
    if (response.final) return this.#finish(shown, scores, this.#numOutput >= this.#parts.limit ? "length" : "stop");
    if (shown === "" && scores.length === 0) return undefined;
    return this.#chunk(shown, scores, undefined);
  }

  #ids(response: InferResponse): Int32Array {
    const tensor = outputOf(response, this.#parts.signature.outputs.get("tokens"));
    if (tensor === undefined) return new Int32Array(0);
    const ids = integers(tensor);
    const count = firstInteger(outputOf(response, this.#parts.signature.outputs.get("tokenCounts"))) ?? ids.length;
    const own = count < ids.length ? ids.subarray(0, count) : ids;
    return this.#parts.givesPrompt ? own.subarray(this.#parts.promptTokens.length) : own;
  }

  /**
   * The engine counts blocks. Their size is the smallest power of two with which all blocks hold the sequence.
   */
  #countCached(response: InferResponse): void {
    const { outputs } = this.#parts.signature;
    const reused = firstInteger(outputOf(response, outputs.get("reusedBlocks"))) ?? 0;
    const total = firstInteger(outputOf(response, outputs.get("totalBlocks"))) ?? 0;
    if (reused === 0 || total === 0) return;
    const numPrompt = this.#parts.promptTokens.length;
    const blockSize = 2 ** Math.ceil(Math.log2((numPrompt + this.#numOutput) / total));
    this.#cachedTokens = Math.min(numPrompt, reused * blockSize);
  }

  #finish(text: string, scores: readonly TokenScore[], reason: FinishReason): TextChunk {
    const last = this.#scan.push(this.#detokenizer.finish());
    const rest = last.isStopped ? last.text : last.text + this.#scan.end();
    return this.#over(text + rest, scores, last.isStopped ? "stop" : reason, last.stop);
  }

  #over(text: string, scores: readonly TokenScore[], reason: FinishReason, stopText?: string): TextChunk {
    this.isOver = true;
    return { ...this.#chunk(text, scores, reason), stopText };
  }

  #chunk(text: string, scores: readonly TokenScore[], finish: TextChunk["finish"]): TextChunk {
    const usage = {
      promptTokens: this.#parts.promptTokens.length,
      outputTokens: this.#numOutput,
      cachedTokens: this.#cachedTokens,
    };
    return { text, scores, promptScores: this.#scores?.takePrompt(), usage, finish };
  }
}
