/** What an engine is built from and what it says about itself once built. Plain data: both cross a process boundary. */
import type { EngineConfig } from "./llm-engine.ts";

export interface EngineSpec {
  /** Absolute path of a Hugging Face model directory. */
  readonly modelDir: string;
  readonly engine: EngineConfig;
  /** Tokens that the KV cache holds; 0 = chosen by what the model and the machine allow. */
  readonly kvCacheTokens: number;
  /** 0 = chosen by the machine. */
  readonly numThreads: number;
  /** Absolute path of a module that exports `logitsPostProcessors`; its functions run in the engine's process. */
  readonly postProcessorModule?: string | undefined;
}

export interface EngineInfo {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly maxSequenceLength: number;
}
