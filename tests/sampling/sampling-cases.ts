/** Requests whose tokens are drawn many times over: each sampling parameter by itself, and combinations of them. */
import { type GenerateRequest, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import { Sequence, type SequenceSink } from "../../server/src/engine/request/sequence.ts";
import { createRandom } from "../support/random.ts";

export const VOCABULARIES = [1003, 32_000, 128_256, 262_144] as const;
/** Draws of one sequence at most: the index of each is another. */
export const MAX_DRAWS = 1_000_000;

export interface SamplingCase {
  readonly name: string;
  readonly request: Partial<GenerateRequest>;
  /** Tokens that were said before, for penalties. */
  readonly said?: readonly number[];
  /** Every how many tokens a guide allows one; absent: no guide. */
  readonly allowedEvery?: number;
  /** Top-p as its decay has left it. */
  readonly decayedTopP?: number;
}

const SAID = [0, 1, 1, 2, 5, 5, 5, 40, 41, 100];
const PENALTIES = { repetitionPenalty: 1.3, presencePenalty: 0.4, frequencyPenalty: 0.2 };

export const SAMPLING_CASES: readonly SamplingCase[] = [
  { name: "all", request: {} },
  { name: "temperature", request: { temperature: 0.7 } },
  { name: "top-k", request: { topK: 50 } },
  { name: "top-p", request: { topP: 0.9 } },
  { name: "min-p", request: { minP: 0.02 } },
  { name: "decayed top-p", request: { topP: 0.9, topPDecay: 0.9 }, decayedTopP: 0.6 },
  { name: "repetition penalty", request: { repetitionPenalty: 1.5 }, said: SAID },
  { name: "presence penalty", request: { presencePenalty: 0.8 }, said: SAID },
  { name: "frequency penalty", request: { frequencyPenalty: 0.4 }, said: SAID },
  { name: "bias", request: {} },
  { name: "bad words", request: { badWords: [Int32Array.of(0), Int32Array.of(3)] } },
  { name: "least length", request: { minTokens: MAX_DRAWS + 1, endIds: Int32Array.of(0, 2) } },
  { name: "guide", request: {}, allowedEvery: 3 },
  { name: "top-k, top-p and temperature", request: { topK: 50, topP: 0.9, temperature: 0.8 } },
  { name: "top-p and min-p", request: { topP: 0.95, minP: 0.01, temperature: 1.2 } },
  { name: "penalties and top-p", request: { ...PENALTIES, topP: 0.9, temperature: 0.9 }, said: SAID },
  { name: "guide, bias and top-k", request: { topK: 40 }, allowedEvery: 2 },
];

/** Flat logits, or peaked ones whose first token has a probability of 0.3 to 0.6. */
export function logitsOf(vocabSize: number, isPeaked: boolean, seed: number): Float32Array {
  const random = createRandom(seed);
  const logits = Float32Array.from({ length: vocabSize }, () => {
    const x = 2 * random.next() - 1;
    return isPeaked ? 6 * x ** 9 : 0.1 * x;
  });
  if (!isPeaked) return logits;
  const rest = logits.reduce((sum, logit, id) => sum + (id === 0 ? 0 : Math.exp(logit)), 0);
  logits[0] = Math.log((0.45 / 0.55) * rest);
  return logits;
}

/** The sequence of a case; each draw is at its next index. */
export function sequenceOf(
  { name, request, said = [], allowedEvery, decayedTopP }: SamplingCase,
  vocabSize: number,
): Sequence {
  const logitBias = name.includes("bias")
    ? Float32Array.from({ length: vocabSize }, (_, id) => (id % 7 === 0 ? 0.7 : 0))
    : undefined;
  const whole = {
    ...NEUTRAL_REQUEST,
    topK: 0,
    ...request,
    logitBias,
    promptTokens: Int32Array.from(said.length === 0 ? [9] : said),
    maxTokens: MAX_DRAWS + 10,
    seed: 77n,
  };
  const sequence = new Sequence(whole, SILENT, { blockSize: 1024, vocabSize, maxSequenceLength: 2 * MAX_DRAWS });
  if (decayedTopP !== undefined) sequence.topP = decayedTopP;
  if (allowedEvery !== undefined) sequence.guide = guideOf(vocabSize, allowedEvery);
  return sequence;
}

function guideOf(vocabSize: number, every: number): Sequence["guide"] {
  const mask = new Int32Array(Math.ceil(vocabSize / 32));
  for (let id = 0; id < vocabSize; id += every) mask[id >> 5] = (mask[id >> 5] ?? 0) | (1 << (id & 31));
  return { mask, pending: undefined, failure: undefined, accept: () => undefined, close: () => undefined };
}

export const SILENT: SequenceSink = {
  started: (): void => undefined,
  token: (): void => undefined,
  extra: (): void => undefined,
  beams: (): void => undefined,
  finished: (): void => undefined,
  failed: (): void => undefined,
};
