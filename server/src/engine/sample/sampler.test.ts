import assert from "node:assert/strict";
import { test } from "node:test";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../request/generate.ts";
import { Sequence } from "../request/sequence.ts";
import { logProb } from "./log-probs.ts";
import { uniformAt } from "./random.ts";
import { argmax, Sampler } from "./sampler.ts";

const SINK = {
  started: (): void => undefined,
  token: (): void => undefined,
  extra: (): void => undefined,
  beams: (): void => undefined,
  finished: (): void => undefined,
  failed: (): void => undefined,
};

function sequence(changes: Partial<GenerateRequest>, prompt: readonly number[] = [0], output: number[] = []): Sequence {
  const request = {
    ...NEUTRAL_REQUEST,
    promptTokens: Int32Array.from(prompt),
    maxTokens: 100_000,
    topK: 0,
    ...changes,
  };
  const limits = { blockSize: 4, vocabSize: 8, maxSequenceLength: 100_100 };
  const created = new Sequence(request, SINK, limits);
  for (const token of output) created.append(token);
  return created;
}

/** Logits of the given probabilities. */
function row(...probabilities: number[]): Float32Array {
  return Float32Array.from(probabilities, Math.log);
}

/** Counts of each token in `draws` draws at successive indices of one sequence. */
function frequencies(logits: Float32Array, changes: Partial<GenerateRequest>, draws = 20_000): number[] {
  const sampler = new Sampler(logits.length);
  const counts = new Array<number>(logits.length).fill(0);
  const each = sequence({ seed: 5n, ...changes });
  for (let i = 0; i < draws; i++) {
    const token = sampler.sample(logits, each);
    counts[token] = (counts[token] ?? 0) + 1 / draws;
    each.numTokens += 1; // the next index, with nothing appended that penalties could see
  }
  return counts;
}

function assertNear(actual: readonly number[], expected: readonly number[]): void {
  for (const [i, value] of expected.entries()) {
    assert.equal(Math.abs((actual[i] ?? 0) - value) < 0.015, true, `token ${i}: ${actual[i]}, expected ${value}`);
    assert.equal(value > 0 || actual[i] === 0, true, `token ${i} came out`);
  }
}

test("sample() draws by the distribution that temperature, top-k and top-p leave", () => {
  const logits = row(0.1, 0.4, 0.2, 0.3);
  const cases: [Partial<GenerateRequest>, number[]][] = [
    [{}, [0.1, 0.4, 0.2, 0.3]],
    [{ temperature: 0.5 }, [1 / 30, 16 / 30, 4 / 30, 9 / 30]],
    [{ topK: 2 }, [0, 4 / 7, 0, 3 / 7]],
    [{ topK: 100 }, [0.1, 0.4, 0.2, 0.3]],
    [{ topP: 0.65 }, [0, 4 / 7, 0, 3 / 7]],
    [{ topP: 0.71 }, [0, 4 / 9, 2 / 9, 3 / 9]],
    [{ topP: 1e-9 }, [0, 1, 0, 0]],
    [{ topK: 3, topP: 0.7 }, [0, 4 / 7, 0, 3 / 7]],
    [{ minP: 0.51 }, [0, 4 / 7, 0, 3 / 7]],
    [{ minP: 0.49 }, [0, 4 / 9, 2 / 9, 3 / 9]],
    [{ minP: 1 }, [0, 1, 0, 0]],
    [{ topK: 3, minP: 0.7 }, [0, 4 / 7, 0, 3 / 7]],
    [{ topP: 0.95, minP: 0.4 }, [0, 4 / 9, 2 / 9, 3 / 9]],
    [{ temperature: 0.5, minP: 0.3 }, [0, 16 / 25, 0, 9 / 25]],
    [{ topK: 1, topP: 0.9 }, [0, 1, 0, 0]],
    [{ temperature: 0 }, [0, 1, 0, 0]],
    [{ logitBias: Float32Array.of(Math.log(4), 0, 0, Number.NEGATIVE_INFINITY) }, [0.4, 0.4, 0.2, 0]],
    [{ badWords: [Int32Array.of(1)] }, [0.1 / 0.6, 0, 0.2 / 0.6, 0.3 / 0.6]],
  ];
  for (const [changes, expected] of cases) assertNear(frequencies(logits, changes), expected);
});

test("sample() draws 400 tokens in proportion to their probabilities by the chi-square test", () => {
  const size = 400;
  const draws = 20_000;
  const logits = Float32Array.from({ length: size }, (_, i) => uniformAt(11, 2, i) * 4);
  for (const [changes, degrees] of [
    [{ temperature: 1 }, 399],
    [{ temperature: 1.7 }, 399],
    [{ topK: 100 }, 99],
  ] as const) {
    const each = sequence({ seed: 77n, ...changes });
    const temperature = each.request.temperature;
    const kept = [...logits.keys()].sort((a, b) => (logits[b] ?? 0) - (logits[a] ?? 0)).slice(0, degrees + 1);
    const weights = kept.map((id) => Math.exp((logits[id] ?? 0) / temperature));
    const mass = weights.reduce((sum, weight) => sum + weight, 0);
    const counts = frequencies(logits, { seed: 77n, ...changes }, draws);
    const chiSquare = kept.reduce((sum, id, i) => {
      const expected = (draws * (weights[i] ?? 0)) / mass;
      return sum + ((counts[id] ?? 0) * draws - expected) ** 2 / expected;
    }, 0);
    // Within four standard deviations of its mean, for these seeds once and for all.
    assert.equal(Math.abs(chiSquare - degrees) < 4 * Math.sqrt(2 * degrees), true, `${chiSquare} for ${degrees}`);
  }
});

test("sample() gives the same for the same seed and place, whatever the sampler did before", () => {
  const logits = Float32Array.from({ length: 1000 }, (_, i) => uniformAt(1, 2, i) * 4);
  const [fresh, used] = [new Sampler(1000), new Sampler(1000)];
  const other = sequence({ seed: 99n, topK: 7 });
  for (let place = 0; place < 200; place++) {
    const [a, b] = [sequence({ seed: 1n }), sequence({ seed: 1n })];
    a.numTokens += place;
    b.numTokens += place;
    used.sample(logits, other);
    assert.equal(used.sample(logits, b), fresh.sample(logits, a));
  }
});

test("sample() agrees with a full sort for random rows, top-k and top-p", () => {
  const size = 300;
  const sampler = new Sampler(size);
  for (let round = 0; round < 300; round++) {
    const logits = Float32Array.from({ length: size }, (_, i) => Math.round(uniformAt(round, 1, i) * 40) / 4); // with ties
    const topK = round % 3 === 0 ? 0 : 1 + (round % 50);
    const topP = round % 2 === 0 ? 0 : 0.05 + uniformAt(round, 2, 0) * 0.9;
    const each = sequence({ seed: BigInt(round), topK, topP: topK === 0 && topP === 0 ? 0.5 : topP });
    const allowed = allowedBySort(logits, each.request);
    for (let place = 0; place < 20; place++, each.numTokens++) {
      assert.equal(allowed.has(sampler.sample(logits, each)), true, `round ${round}`);
    }
  }
});

function allowedBySort(logits: Float32Array, { topK, topP }: GenerateRequest): Set<number> {
  const weights = Array.from(logits, (logit) => Math.exp(logit - Math.max(...logits)));
  const sorted = weights.map((weight, id) => ({ id, weight })).sort((a, b) => b.weight - a.weight || a.id - b.id);
  const top = topK > 0 ? sorted.slice(0, topK) : sorted;
  if (topP === 0) return new Set(top.map(({ id }) => id));
  const mass = top.reduce((sum, { weight }) => sum + weight, 0);
  const allowed = new Set<number>();
  let sum = 0;
  for (const { id, weight } of top) {
    if (sum >= topP * mass + 1e-9) break; // a rounding error may let one more in
    allowed.add(id);
    sum += weight;
  }
  return allowed;
}

test("sample() applies repetition, presence and frequency penalties to what was seen", () => {
  const sampler = new Sampler(4);
  const logits = Float32Array.of(2, 1.9, 1.5, -1);
  const greedy = { topK: 1 };
  const cases: [Partial<GenerateRequest>, number[], number[], number][] = [
    [{}, [0], [], 0],
    [{ repetitionPenalty: 1.1 }, [0], [], 1],
    [{ repetitionPenalty: 1.1 }, [3], [], 0],
    [{ repetitionPenalty: 2 }, [0, 1], [2], 0],
    [{ presencePenalty: 0.2 }, [0], [], 1],
    [{ presencePenalty: 0.2, promptIgnoreLength: 1 }, [0], [], 0],
    [{ presencePenalty: 0.2, promptIgnoreLength: 1 }, [0], [0], 1],
    [{ frequencyPenalty: 0.06 }, [0], [], 0],
    [{ frequencyPenalty: 0.06 }, [0], [0], 1],
    [{ frequencyPenalty: -1 }, [3, 3, 3], [3], 3],
  ];
  for (const [changes, prompt, output, expected] of cases) {
    assert.equal(sampler.sample(logits, sequence({ ...greedy, ...changes }, prompt, output)), expected);
  }
});

test("sample() survives rows with NaN, infinities, and nothing to choose", () => {
  const sampler = new Sampler(4);
  const { NaN: nan, POSITIVE_INFINITY: top, NEGATIVE_INFINITY: bottom } = Number;
  for (const changes of [{ topK: 1 }, {}, { topK: 3 }, { topP: 0.5 }]) {
    assert.equal(sampler.sample(Float32Array.of(nan, bottom, 3, nan), sequence(changes)), 2);
    assert.equal(sampler.sample(Float32Array.of(nan, bottom, 3, top), sequence(changes)), 3);
    assert.equal(sampler.sample(Float32Array.of(nan, bottom, bottom, nan), sequence(changes)), -1);
  }
  assertNear(frequencies(Float32Array.of(nan, 5000, 5000, bottom), {}, 10_000), [0, 0.5, 0.5, 0]);
});

test("argmax() takes the first of equals", () => {
  assert.equal(argmax(Float32Array.of(1, 3, 3, 2)), 1);
});

test("logProb() is the log-softmax of the row as it is", () => {
  assert.equal(logProb(row(0.1, 0.4, 0.2, 0.3), 2).toFixed(5), Math.log(0.2).toFixed(5));
  const shifted = Float32Array.of(1000, 1000, Number.NEGATIVE_INFINITY, 1000);
  assert.equal(logProb(shifted, 0).toFixed(5), Math.log(1 / 3).toFixed(5));
});

test("uniformAt() is uniform, and different for neighbouring seeds and places", () => {
  const bins = new Array<number>(10).fill(0);
  for (let i = 0; i < 50_000; i++) {
    const bin = Math.floor(uniformAt(i % 7, 0, i) * 10);
    bins[bin] = (bins[bin] ?? 0) + 1;
  }
  for (const count of bins) assert.equal(Math.abs(count - 5000) < 350, true, String(count));
  const values = new Set(Array.from({ length: 1000 }, (_, i) => uniformAt(i % 10, i % 3, Math.floor(i / 30))));
  assert.equal(values.size > 990, true);
});
