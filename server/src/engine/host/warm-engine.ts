/**
 * Generates a few tokens before an engine is ready: code is compiled, memory of steps is taken, and a model whose steps fail is refused
 * when it loads. Counters and cache of the engine that serves stay as new.
 */
import type { EngineConfig } from "../engine-config.ts";
import { LlmEngine } from "../llm-engine.ts";
import { type EncoderInput, FRAMES_PER_ROW } from "../request/encoder-input.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../request/generate.ts";
import type { StepRunner } from "../step-runner.ts";

/** Requests, and the time after which none begins. One has two steps, which may take long on a large model. */
const MAX_REQUESTS = 8;
const ENOUGH_MS = 200;
const PROMPT_TOKENS = 4;
const OUTPUT_TOKENS = 2;
/** They take turns. */
const WAYS: readonly Partial<GenerateRequest>[] = [{}, { temperature: 0.8, topK: 0, topP: 0.9 }];

/** @throws Error of a step that fails */
export async function warmEngine(runner: StepRunner, config: EngineConfig): Promise<void> {
  // It is not closed, since the runner is not its own.
  const engine = new LlmEngine(runner, config);
  const promptTokens = Math.min(PROMPT_TOKENS, engine.limits.maxSequenceLength - OUTPUT_TOKENS);
  if (promptTokens < 1) return;
  const startMs = performance.now();
  for (let i = 0; i < MAX_REQUESTS && performance.now() - startMs < ENOUGH_MS; i++) {
    const prompt = Int32Array.from({ length: promptTokens }, (_, at) => (i + at) % runner.vocabSize);
    const changes = WAYS[i % WAYS.length];
    const encoderInput = inputOf(runner, prompt);
    const asked = { ...NEUTRAL_REQUEST, ...changes, promptTokens: prompt, maxTokens: OUTPUT_TOKENS, encoderInput };
    await finish(engine, asked);
  }
}

/** A short input for the encoder of models that have one. */
function inputOf({ encoder }: StepRunner, tokens: Int32Array): EncoderInput | undefined {
  if (encoder === undefined) return undefined;
  if (encoder.kind === "tokens") return { kind: "tokens", tokens };
  const { width } = encoder;
  return { kind: "frames", width, values: new Float32Array(FRAMES_PER_ROW * width) };
}

async function finish(engine: LlmEngine, request: GenerateRequest): Promise<void> {
  const chunks = engine.generate(request)[Symbol.asyncIterator]();
  while ((await chunks.next()).done !== true);
}
