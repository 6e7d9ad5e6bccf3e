import assert from "node:assert/strict";
import { test } from "node:test";
import type { GuideSession } from "../guide/guides.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../request/generate.ts";
import { Sequence } from "../request/sequence.ts";
import { applyLogitsProcessors, needsLogitsProcessors } from "./logits-processors.ts";
import { uniformAt } from "./random.ts";

const VOCAB = 40;
const SINK = {
  started: (): void => undefined,
  token: (): void => undefined,
  extra: (): void => undefined,
  beams: (): void => undefined,
  finished: (): void => undefined,
  failed: (): void => undefined,
};

function sequence(changes: Partial<GenerateRequest>, prompt: readonly number[], output: readonly number[]): Sequence {
  const request = { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(prompt), maxTokens: 1000, topK: 0, ...changes };
  const created = new Sequence(request, SINK, { blockSize: 4, vocabSize: VOCAB, maxSequenceLength: 2000 });
  for (const token of output) created.append(token);
  return created;
}

function guideOf(...allowed: number[]): GuideSession {
  const mask = new Int32Array(Math.ceil(VOCAB / 32));
  for (const id of allowed) mask[id >> 5] = (mask[id >> 5] ?? 0) | (1 << (id & 31));
  return { mask, pending: undefined, failure: undefined, accept: () => undefined, close: () => undefined };
}

/** The same rules by the book, in double precision and without an eye on speed. */
function byTheBook(row: Float32Array, { request }: Sequence, text: readonly number[], temperature: number): number[] {
  const scores = Array.from(row, (score, id) => (score + (request.logitBias?.[id] ?? 0)) / temperature);
  const numIgnored = Math.min(request.promptIgnoreLength, request.promptTokens.length); // of the prompt only
  for (const token of new Set(text)) {
    const value = scores[token] ?? 0;
    scores[token] = value < 0 ? value * request.repetitionPenalty : value / request.repetitionPenalty;
    const count = text.filter((each, i) => each === token && i >= numIgnored).length;
    if (count > 0) scores[token] = (scores[token] ?? 0) - request.presencePenalty - request.frequencyPenalty * count;
  }
  const endsIn = (part: readonly number[]): boolean =>
    part.length <= text.length && part.every((token, i) => token === text[text.length - part.length + i]);
  const size = request.noRepeatNgramSize;
  for (let id = 0; id < VOCAB; id++) {
    const isBad = request.badWords.some((word) => word.at(-1) === id && endsIn([...word.slice(0, -1)]));
    const tail = [...text.slice(text.length - size + 1), id].join();
    const isRepeat =
      size > 0 && text.some((_, i) => i + size <= text.length && text.slice(i, i + size).join() === tail);
    if (isBad || isRepeat) scores[id] = Number.NEGATIVE_INFINITY;
  }
  return scores;
}

test("applyLogitsProcessors() agrees with the rules written out in double precision, for random requests", () => {
  for (let round = 0; round < 400; round++) {
    const random = (index: number): number => uniformAt(round, 7, index);
    const prompt = Array.from({ length: 1 + (round % 9) }, (_, i) => Math.floor(random(i) * 8));
    const output = Array.from({ length: round % 14 }, (_, i) => Math.floor(random(100 + i) * 8));
    const each = sequence(
      {
        repetitionPenalty: round % 3 === 0 ? 1 : 0.5 + random(1) * 2,
        presencePenalty: round % 2 === 0 ? 0 : random(2) - 0.5,
        frequencyPenalty: round % 5 === 0 ? random(3) : 0,
        promptIgnoreLength: round % 4,
        noRepeatNgramSize: round % 6,
        badWords: round % 7 === 0 ? [Int32Array.of(3), Int32Array.of(1, 2, 5)] : [],
        logitBias: round % 4 === 0 ? Float32Array.from({ length: VOCAB }, (_, i) => random(200 + i) * 3) : undefined,
      },
      prompt,
      output,
    );
    const temperature = 0.5 + random(4);
    const row = Float32Array.from({ length: VOCAB }, (_, i) => random(300 + i) * 10 - 5);
    const expected = byTheBook(row, each, [...prompt, ...output], temperature);
    const scores = row.slice();
    applyLogitsProcessors(scores, each, temperature);
    for (const [id, value] of expected.entries()) {
      const same = value === scores[id] || Math.abs(value - (scores[id] ?? 0)) < 1e-5;
      assert.equal(same, true, `round ${round}, token ${id}: ${scores[id]}, expected ${value}`);
    }
  }
});

test("applyLogitsProcessors() bans end ids before the minimum length, and guided texts obey their guide", () => {
  const allowedAfter = (each: Sequence): number[] => {
    const scores = new Float32Array(VOCAB);
    applyLogitsProcessors(scores, each, 1);
    return [...scores.keys()].filter((id) => scores[id] === 0);
  };
  const endIds = Int32Array.of(2, 39, 77);
  const young = sequence({ endIds, minTokens: 2 }, [1], [5]);
  assert.deepEqual(
    [2, 39].map((id) => allowedAfter(young).includes(id)),
    [false, false],
  );
  assert.equal(allowedAfter(young).length, VOCAB - 2);
  young.append(5);
  assert.equal(needsLogitsProcessors(young), false);
  const guided = sequence({ endIds, minTokens: 9 }, [1], []);
  guided.guide = guideOf(2, 7, 33);
  assert.deepEqual(allowedAfter(guided), [7, 33]);
  guided.guide = guideOf(2, 39);
  assert.deepEqual(allowedAfter(guided), [2, 39]); // the text is complete: only an end is left
});

test("applyLogitsProcessors() hands the row to the post-processor before all other rules", () => {
  const each = sequence({ logitBias: new Float32Array(VOCAB).fill(1) }, [4, 5], [6]);
  const seen: number[][] = [];
  each.postProcess = (logits, tokens, promptLength) => {
    seen.push([logits[3] ?? 0, promptLength, ...tokens]);
    logits[3] = 8;
  };
  const scores = new Float32Array(VOCAB).fill(2);
  applyLogitsProcessors(scores, each, 2);
  assert.deepEqual(seen, [[2, 2, 4, 5, 6]]);
  assert.deepEqual([scores[3], scores[4]], [4.5, 1.5]);
});

test("top-p decays after every token, not below its minimum, and one token sets it back", () => {
  const each = sequence({ topP: 0.8, topPDecay: 0.5, topPMin: 0.15, topPResetId: 9 }, [9], []);
  const seen = [each.topP];
  for (const token of [1, 2, 3, 9, 4]) {
    each.append(token);
    seen.push(each.topP);
  }
  assert.deepEqual(seen, [0.8, 0.4, 0.2, 0.15, 0.8, 0.4]);
});
