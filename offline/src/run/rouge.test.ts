import assert from "node:assert/strict";
import { test } from "node:test";
import { ROUGE_KINDS, type RougeKind, rouge } from "./rouge.ts";

type Expected = Readonly<Record<RougeKind, readonly [precision: number, recall: number, fmeasure: number]>>;

/** Results of rouge-score 0.1.2, to six decimals. */
const RECORDED: readonly (readonly [reference: string, candidate: string, expected: Expected])[] = [
  [
    "The quick brown fox jumps over the lazy dog.",
    "A quick brown dog jumps on the log.",
    {
      rouge1: [0.625, 0.555556, 0.588235],
      rouge2: [0.142857, 0.125, 0.133333],
      rougeL: [0.5, 0.444444, 0.470588],
      rougeLsum: [0.5, 0.444444, 0.470588],
    },
  ],
  [
    "Police killed the gunman.\nThe gunman was shot down.",
    "The gunman kill police.\nPolice shot him down, down, down.",
    {
      rouge1: [0.5, 0.555556, 0.526316],
      rouge2: [0.111111, 0.125, 0.117647],
      rougeL: [0.4, 0.444444, 0.421053],
      rougeLsum: [0.5, 0.555556, 0.526316],
    },
  ],
  [
    "It's 12.5% more than in 1999!",
    "12 5 more than 1999",
    {
      rouge1: [1.0, 0.625, 0.769231],
      rouge2: [0.75, 0.428571, 0.545455],
      rougeL: [1.0, 0.625, 0.769231],
      rougeLsum: [1.0, 0.625, 0.769231],
    },
  ],
  ["", "", { rouge1: [0.0, 0.0, 0.0], rouge2: [0.0, 0.0, 0.0], rougeL: [0, 0, 0], rougeLsum: [0, 0, 0] }],
  ["a b c", "", { rouge1: [0.0, 0.0, 0.0], rouge2: [0.0, 0.0, 0.0], rougeL: [0, 0, 0], rougeLsum: [0, 0, 0] }],
  ["", "a b c", { rouge1: [0.0, 0.0, 0.0], rouge2: [0.0, 0.0, 0.0], rougeL: [0, 0, 0], rougeLsum: [0, 0, 0] }],
  [
    "one two three four five",
    "five four three two one",
    { rouge1: [1.0, 1.0, 1.0], rouge2: [0.0, 0.0, 0.0], rougeL: [0.2, 0.2, 0.2], rougeLsum: [0.2, 0.2, 0.2] },
  ],
  [
    "The cat sat.\n\nThe cat ran.\nThe dog slept",
    "The dog ran\nThe cat slept and sat",
    {
      rouge1: [0.875, 0.777778, 0.823529],
      rouge2: [0.428571, 0.375, 0.4],
      rougeL: [0.5, 0.444444, 0.470588],
      rougeLsum: [0.875, 0.777778, 0.823529],
    },
  ],
  [
    "Ünïcode wörds — naïve café",
    "unicode words naive cafe",
    { rouge1: [0.0, 0.0, 0.0], rouge2: [0.0, 0.0, 0.0], rougeL: [0.0, 0.0, 0.0], rougeLsum: [0.0, 0.0, 0.0] },
  ],
  [
    "the the the the",
    "the the",
    {
      rouge1: [1.0, 0.5, 0.666667],
      rouge2: [1.0, 0.333333, 0.5],
      rougeL: [1.0, 0.5, 0.666667],
      rougeLsum: [1.0, 0.5, 0.666667],
    },
  ],
  [
    "w1 w2 w3 w4 w5",
    "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5",
    {
      rouge1: [0.4, 0.8, 0.533333],
      rouge2: [0.111111, 0.25, 0.153846],
      rougeL: [0.4, 0.8, 0.533333],
      rougeLsum: [0.4, 0.8, 0.533333],
    },
  ],
];

for (const [reference, candidate, expected] of RECORDED) {
  test(`rouge() scores ${JSON.stringify(candidate.slice(0, 30))} as recorded`, () => {
    const scores = rouge(reference, candidate);
    for (const kind of ROUGE_KINDS) {
      const { precision, recall, fmeasure } = scores[kind];
      const actual = [precision, recall, fmeasure].map((value) => Math.round(value * 1e6) / 1e6);
      assert.deepEqual(actual, [...expected[kind]], kind);
    }
  });
}
