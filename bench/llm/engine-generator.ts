/** The same engine in this process, fed with tokens: what is left when everything of a server is taken away. */
import { join } from "node:path";
import { createDecoderRunner, type DecoderCpuRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import { NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import { loadTokenizer } from "../../server/src/formats/tokenizer/tokenizer-files.ts";
import { NEW_TOKENS } from "./prompts.ts";
import { Arrivals, type Generation } from "./stream.ts";

type Tokenizer = Awaited<ReturnType<typeof loadTokenizer>>;

export class EngineGenerator {
  readonly #runner: DecoderCpuRunner;
  readonly #engine: LlmEngine;
  readonly #tokenizer: Tokenizer;

  constructor(runner: DecoderCpuRunner, tokenizer: Tokenizer) {
    this.#runner = runner;
    this.#engine = new LlmEngine(runner, DEFAULT_ENGINE_CONFIG);
    this.#tokenizer = tokenizer;
  }

  static async open(modelDir: string): Promise<EngineGenerator> {
    const runner = await createDecoderRunner({ modelDir, blockSize: 16, numBlocks: 2048, numThreads: undefined });
    return new EngineGenerator(runner, await loadTokenizer(modelDir));
  }

  async generate(prompt: string): Promise<Generation> {
    const arrivals = new Arrivals();
    const promptTokens = Int32Array.from(this.#tokenizer.encode(prompt, { addSpecialTokens: true }));
    const request = { ...NEUTRAL_REQUEST, promptTokens, maxTokens: NEW_TOKENS, minTokens: NEW_TOKENS };
    for await (const { tokenIds } of this.#engine.generate(request)) {
      for (let k = 0; k < tokenIds.length; k++) arrivals.arrived();
    }
    return arrivals.end();
  }

  async close(): Promise<void> {
    await this.#engine.close();
    await this.#runner.close();
  }
}

export function modelDirOf(root: string): string {
  return join(root, "examples/nereid-tiny/language_model");
}
