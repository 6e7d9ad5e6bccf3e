/** An in-process engine with its tokenizer: prompts in, texts out. It knows neither server nor command line. */
import { DEFAULT_ENGINE_CONFIG } from "@nereid/server/engine/engine-config";
import { LlmEngine } from "@nereid/server/engine/llm-engine";
import { type GenerateRequest, NEUTRAL_REQUEST } from "@nereid/server/engine/request/generate";
import type { Reporter } from "@nereid/server/files/progress";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import type { Tokenizer } from "@nereid/server/formats/tokenizer/tokenizer";
import { loadTokenizer } from "@nereid/server/formats/tokenizer/tokenizer-files";
import { openRunner } from "./open-runner.ts";
import type { ToolDevice } from "./tool-device.ts";

export interface TextEngineOptions {
  readonly engineDir: string;
  /** Undefined: the engine's own folder. */
  readonly tokenizerDir?: string | undefined;
  /** Concurrent sequences. */
  readonly maxSequences: number;
  /** Tokens of the longest sequence, prompt and reply. */
  readonly maxSequenceTokens: number;
  readonly reusesPrefixes?: boolean;
  readonly device: ToolDevice;
  readonly reporter?: Pick<Reporter, "info" | "warn"> | undefined;
}

export interface GeneratedText {
  /** One per beam, best first. */
  readonly beams: readonly { readonly text: string; readonly tokenIds: readonly number[] }[];
  readonly numTokens: number;
  /** Time to first token in ms; undefined when there was none. */
  readonly firstTokenMs: number | undefined;
}

export class TextEngine implements AsyncDisposable {
  readonly tokenizer: Tokenizer;
  /** End-of-sequence ids. */
  readonly endIds: Int32Array;
  readonly #engine: LlmEngine;

  private constructor(tokenizer: Tokenizer, endIds: Int32Array, engine: LlmEngine) {
    this.tokenizer = tokenizer;
    this.endIds = endIds;
    this.#engine = engine;
  }

  /** @throws ToolError naming the folder and the problem */
  static async open(options: TextEngineOptions): Promise<TextEngine> {
    const { engineDir, tokenizerDir = engineDir, maxSequences, maxSequenceTokens } = options;
    try {
      const tokenizer = await loadTokenizer(tokenizerDir);
      const { device, reporter } = options;
      const maxStepTokens = DEFAULT_ENGINE_CONFIG.maxBatchTokens;
      const sizes = { maxSequences, maxSequenceTokens, maxStepTokens };
      const runner = await openRunner({ modelDir: engineDir, device, ...sizes, reporter });
      const { eosTokenIds = [] } = runner;
      const ids = eosTokenIds.length > 0 ? eosTokenIds : [tokenizer.eosId ?? -1];
      const config = { ...DEFAULT_ENGINE_CONFIG, maxSequences, prefixReuse: options.reusesPrefixes ?? false };
      const engine = new LlmEngine(runner, config, undefined, { tokenizer });
      return new TextEngine(tokenizer, Int32Array.from(ids.filter((id) => id >= 0)), engine);
    } catch (error) {
      const cause = fileError("read", engineDir, error);
      if (cause instanceof ToolError || !(cause instanceof Error)) throw cause;
      throw new ToolError(cause.message, { cause });
    }
  }

  encode(text: string, addSpecialTokens = true): Int32Array {
    return this.tokenizer.encode(text, { addSpecialTokens });
  }

  /** `onText` receives new text of the first beam as soon as it is decoded. */
  async generate(
    request: Partial<GenerateRequest> & Pick<GenerateRequest, "promptTokens" | "maxTokens">,
    onText: (text: string) => void = () => undefined,
  ): Promise<GeneratedText> {
    const startMs = performance.now();
    const detokenizer = this.tokenizer.createDetokenizer({ skipSpecialTokens: true });
    const ids: number[] = [];
    let firstTokenMs: number | undefined;
    let beams: GeneratedText["beams"] | undefined;
    for await (const chunk of this.#engine.generate({ ...NEUTRAL_REQUEST, endIds: this.endIds, ...request })) {
      if (chunk.tokenIds.length > 0) firstTokenMs ??= performance.now() - startMs;
      ids.push(...chunk.tokenIds);
      const text = detokenizer.push(chunk.tokenIds);
      if (text !== "") onText(text);
      beams ??= chunk.beams?.map(({ tokenIds }) => ({ text: this.decode(tokenIds), tokenIds: [...tokenIds] }));
    }
    const rest = detokenizer.finish();
    if (rest !== "") onText(rest);
    const found = beams ?? [{ text: this.decode(ids), tokenIds: ids }];
    return { beams: found, numTokens: found[0]?.tokenIds.length ?? 0, firstTokenMs };
  }

  decode(ids: ArrayLike<number>): string {
    return this.tokenizer.decode(ids, { skipSpecialTokens: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#engine.close();
  }
}
