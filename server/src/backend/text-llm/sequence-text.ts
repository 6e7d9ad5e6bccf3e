/** The text of one generated sequence: tokens become text, stop texts end it, and figures are kept for the outputs. */
import type { GeneratedChunk, GenerateRequest, Usage } from "../../engine/request/generate.ts";
import type { Detokenizer } from "../../formats/tokenizer/detokenizer.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";
import { StopScan } from "../../text-model/stop-scan.ts";

export type TextFinish = "stop" | "length" | "cancelled";

/** A new token with its log-probability and those of the likeliest. */
export interface TokenFigures {
  readonly id: number;
  readonly logProb: number;
  readonly topIds: Int32Array;
  readonly topLogProbs: Float32Array;
}

/** How tokens become text. */
export interface SequenceOptions {
  /** Texts that end the output, which is without them unless `includesStop`. */
  readonly stops: readonly string[];
  readonly includesStop: boolean;
  readonly skipsSpecialTokens: boolean;
  readonly generate: Pick<GenerateRequest, "topLogProbs">;
}

export class SequenceText {
  readonly #detokenizer: Detokenizer;
  readonly #scan: StopScan;
  readonly #numTop: number;
  /** All text so far, and where the text that was not sent yet begins. */
  #text = "";
  #sentLength = 0;
  #numTokens = 0;
  #numSent = 0;
  #cumLogProb = 0;
  #finish: TextFinish | undefined;
  #stop: string | undefined;
  #usage: Usage | undefined;
  #fresh: TokenFigures[] = [];

  /** `promptTokens`: those whose text stands before the output. */
  constructor(job: SequenceOptions, tokenizer: Tokenizer, promptTokens: ArrayLike<number>) {
    this.#detokenizer = tokenizer.createDetokenizer({ skipSpecialTokens: job.skipsSpecialTokens });
    this.#scan = new StopScan(job.stops, job.includesStop);
    this.#numTop = job.generate.topLogProbs;
    if (promptTokens.length > 0) this.#text = this.#detokenizer.push(promptTokens);
  }

  get text(): string {
    return this.#text;
  }

  get finish(): TextFinish | undefined {
    return this.#finish;
  }

  /** The text that ended it. */
  get stop(): string | undefined {
    return this.#stop;
  }

  get cumLogProb(): number {
    return this.#cumLogProb;
  }

  get numTokens(): number {
    return this.#numTokens;
  }

  /** Known with the last chunk of the engine. */
  get usage(): Usage | undefined {
    return this.#usage;
  }

  /** True: a stop text has ended it, and the engine need not go on. */
  push(chunk: GeneratedChunk): boolean {
    this.#usage = chunk.usage ?? this.#usage;
    if (this.#finish !== undefined) return true;
    this.#numTokens += chunk.tokenIds.length;
    this.#cumLogProb = chunk.cumLogProb;
    this.#keepFigures(chunk);
    const ends = chunk.finishReason !== undefined;
    const piece = this.#detokenizer.push(chunk.tokenIds) + (ends ? this.#detokenizer.finish() : "");
    const { text, isStopped, stop } = this.#scan.push(piece);
    this.#text += text;
    if (isStopped) {
      this.#finish = "stop";
      this.#stop = stop;
    } else if (ends) {
      this.#text += this.#scan.end();
      this.#finish = finishOf(chunk.finishReason);
    }
    return isStopped;
  }

  /** Text, tokens and figures since the last call. */
  take(): { readonly text: string; readonly numTokens: number; readonly tokens: readonly TokenFigures[] } {
    const text = this.#text.slice(this.#sentLength);
    const numTokens = this.#numTokens - this.#numSent;
    const tokens = this.#fresh;
    this.#sentLength = this.#text.length;
    this.#numSent = this.#numTokens;
    this.#fresh = [];
    return { text, numTokens, tokens };
  }

  #keepFigures({ tokenIds, logProbs, extras }: GeneratedChunk): void {
    if (logProbs.length === 0) return;
    const top = this.#numTop;
    for (const [i, id] of tokenIds.entries()) {
      this.#fresh.push({
        id,
        logProb: logProbs[i] ?? 0,
        topIds: extras?.topIds.subarray(i * top, (i + 1) * top) ?? new Int32Array(0),
        topLogProbs: extras?.topLogProbs.subarray(i * top, (i + 1) * top) ?? new Float32Array(0),
      });
    }
  }
}

function finishOf(reason: GeneratedChunk["finishReason"]): TextFinish {
  return reason === "length" || reason === "cancelled" ? reason : "stop";
}
