/** Prompts whose blocks must go to a host KV cache, for there is no room, and come back from there. */
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { engineOf, generateTokens, greedyRequest } from "../../server/src/engine/testing/generation.ts";

const PROMPTS = [1, 2, 3].map((seed) => Array.from({ length: 36 }, (_, i) => 3 + ((i * i * seed + 7 * i) % 240)));

export interface AgainTexts {
  readonly first: readonly (readonly number[])[];
  readonly again: readonly (readonly number[])[];
  readonly numOffloaded: number;
  readonly numOnboarded: number;
}

/** One after the other, twice. Takes the runner over, which has five blocks of 16 tokens and more in its host KV cache. */
export async function generateAgain(runner: StepRunner): Promise<AgainTexts> {
  const engine = engineOf(runner);
  const [first, again]: [number[][], number[][]] = [[], []];
  for (const texts of [first, again]) {
    for (const prompt of PROMPTS) texts.push(...(await generateTokens(engine, [greedyRequest(prompt, 4)])));
  }
  const { kvBlocksOffloaded: numOffloaded, kvBlocksOnboarded: numOnboarded } = engine.stats();
  await engine.close();
  return { first, again, numOffloaded, numOnboarded };
}
