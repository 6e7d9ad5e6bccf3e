/** A generation by a model of text: a pipeline over an engine, or a model of the user's own. */
import type { InferResponse } from "../core/infer-response.ts";
import type { ServedModel } from "../core/model-server.ts";
import type { Tokenizer } from "../formats/tokenizer/tokenizer.ts";
import { ResponseGeneration } from "./response-generation.ts";
import { firstInteger, firstText, outputOf, Responses } from "./responses.ts";
import { readScoresJson } from "./scores-json.ts";
import { StopScan } from "./stop-scan.ts";
import type { OutputRole } from "./tensor-names.ts";
import type { TextInferRequest } from "./text-infer-request.ts";
import type { FinishReason, TextChunk, TextRequest, TextUsage, TokenScore } from "./text-request.ts";
import type { TextSignature } from "./text-signature.ts";

export interface TextGenerationParts {
  readonly model: ServedModel;
  readonly signature: TextSignature;
  readonly tokenizer: Tokenizer | undefined;
  readonly request: TextRequest;
  readonly infer: TextInferRequest;
  readonly promptText: string;
  /** Undefined: unknown without a tokenizer. */
  readonly numPromptTokens: number | undefined;
  readonly limit: number;
  /** Each response is one token: the model streams from an engine. */
  readonly countsResponses: boolean;
  /** Responses hold the whole text so far. */
  readonly accumulates: boolean;
}

const FACTS: readonly OutputRole[] = ["numOutputTokens", "numPromptTokens", "finishReason"];

export class TextTensorGeneration extends ResponseGeneration {
  readonly #parts: TextGenerationParts;
  readonly #scan: StopScan;
  /** All text of the model, for counts and for models that accumulate. */
  #whole = "";
  readonly #keepsWhole: boolean;
  readonly #givesFacts: boolean;
  /** New since the last chunk. */
  #scores: readonly TokenScore[] = [];
  #numResponses = 0;
  #numTokens: number | undefined;
  #numPromptTokens: number | undefined;
  #reason: FinishReason | undefined;

  constructor(parts: TextGenerationParts) {
    super(new Responses(parts.model, parts.infer));
    this.#parts = parts;
    this.#scan = new StopScan(parts.request.stop, parts.request.includesStop);
    this.#numPromptTokens = parts.numPromptTokens;
    this.#keepsWhole = parts.tokenizer !== undefined && !parts.countsResponses;
    const { outputs } = parts.signature;
    this.#givesFacts = FACTS.some((role) => outputs.has(role));
  }

  protected override end(): TextChunk {
    return this.#finish("");
  }

  protected override read(response: InferResponse): TextChunk | undefined {
    const text = this.#newText(response);
    // The last response of an answer that ended by itself has no token.
    if (text !== "" || !response.final) this.#numResponses += 1;
    this.#readFacts(response);
    this.#readScores(response);
    const { text: shown, isStopped, stop } = this.#scan.push(text);
    if (isStopped) {
      this.#reason = "stop";
      return this.#over(shown, stop);
    }
    if (response.final) return this.#finish(shown);
    if (shown === "" && this.#scores.length === 0) return undefined;
    const outputTokens = this.#numTokens ?? (this.#parts.countsResponses ? this.#numResponses : undefined);
    return { text: shown, scores: this.#takeScores(), usage: this.#usage(outputTokens), finish: undefined };
  }

  #newText(response: InferResponse): string {
    const tensor = outputOf(response, this.#parts.signature.outputs.get("text"));
    const text = tensor === undefined ? "" : firstText(tensor);
    if (this.#parts.accumulates) {
      const fresh = text.startsWith(this.#whole) ? text.slice(this.#whole.length) : text;
      this.#whole = text;
      return fresh;
    }
    const { promptText } = this.#parts;
    const isOnly = response.final && this.#numResponses === 0;
    const fresh = isOnly && promptText !== "" && text.startsWith(promptText) ? text.slice(promptText.length) : text;
    if (this.#keepsWhole) this.#whole += fresh;
    return fresh;
  }

  #readScores(response: InferResponse): void {
    const { signature, request } = this.#parts;
    if (request.logProbs === undefined) return;
    const tensor = outputOf(response, signature.outputs.get("scoresJson"));
    if (tensor?.datatype === "BYTES")
      this.#scores = [...this.#scores, ...readScoresJson(firstText(tensor), request.logProbs)];
  }

  #takeScores(): readonly TokenScore[] {
    const scores = this.#scores;
    this.#scores = [];
    return scores;
  }

  #readFacts(response: InferResponse): void {
    if (!this.#givesFacts) return;
    const int = (role: OutputRole): number | undefined =>
      firstInteger(outputOf(response, this.#parts.signature.outputs.get(role)));
    const count = int("numOutputTokens");
    if (count !== undefined)
      this.#numTokens = count + (this.#parts.signature.countsNewTokens ? (this.#numTokens ?? 0) : 0);
    this.#numPromptTokens = int("numPromptTokens") ?? this.#numPromptTokens;
    const reason = outputOf(response, this.#parts.signature.outputs.get("finishReason"));
    if (reason?.datatype !== "BYTES") return;
    const text = firstText(reason);
    if (text === "length" || text === "stop") this.#reason = text;
  }

  #finish(text: string): TextChunk {
    return this.#over(text + this.#scan.end());
  }

  #over(text: string, stopText?: string): TextChunk {
    this.isOver = true;
    const outputTokens = this.#countTokens();
    const isCut = outputTokens !== undefined && outputTokens >= this.#parts.limit;
    const reason = this.#reason ?? (isCut ? "length" : "stop");
    const scores = this.#takeScores();
    return { text, scores, usage: this.#usage(outputTokens), finish: reason, stopText };
  }

  #usage(outputTokens: number | undefined): TextUsage {
    return { promptTokens: this.#numPromptTokens, outputTokens, cachedTokens: 0 };
  }

  #countTokens(): number | undefined {
    if (this.#numTokens !== undefined) return this.#numTokens;
    if (this.#parts.countsResponses) return this.#numResponses;
    return this.#parts.tokenizer?.encode(this.#whole, { addSpecialTokens: false }).length;
  }
}
