/** For tests and checks of runners: tokens of whole requests by way of an engine. */
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../engine-config.ts";
import type { EngineServices } from "../engine-services.ts";
import { LlmEngine } from "../llm-engine.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../request/generate.ts";
import type { StepRunner } from "../step-runner.ts";

/** The engine takes the runner over. */
export function engineOf(
  runner: StepRunner,
  config: Partial<EngineConfig> = {},
  services: EngineServices = {},
): LlmEngine {
  return new LlmEngine(runner, { ...DEFAULT_ENGINE_CONFIG, ...config }, () => undefined, services);
}

export function greedyRequest(prompt: readonly number[], maxTokens: number): GenerateRequest {
  return { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(prompt), maxTokens, endIds: new Int32Array(0) };
}

/** Requests that arrive together. */
export function generateTokens(engine: LlmEngine, requests: readonly GenerateRequest[]): Promise<number[][]> {
  return Promise.all(
    requests.map(async (request) => {
      const tokens: number[] = [];
      for await (const chunk of engine.generate(request)) tokens.push(...chunk.tokenIds);
      return tokens;
    }),
  );
}
