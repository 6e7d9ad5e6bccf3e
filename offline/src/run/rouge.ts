/**
 * ROUGE (Lin 2004) as Google's rouge-score computes it without a stemmer: shared words, bigrams, and longest common
 * subsequences. Pure.
 */
export interface RougeScore {
  readonly precision: number;
  readonly recall: number;
  readonly fmeasure: number;
}

export const ROUGE_KINDS = ["rouge1", "rouge2", "rougeL", "rougeLsum"] as const;
export type RougeKind = (typeof ROUGE_KINDS)[number];

export function rouge(reference: string, candidate: string): Readonly<Record<RougeKind, RougeScore>> {
  const [wanted, given] = [words(reference), words(candidate)];
  return {
    rouge1: sharedGrams(wanted, given, 1),
    rouge2: sharedGrams(wanted, given, 2),
    rougeL: scoreOf(commonIndices(wanted, given).length, given.length, wanted.length),
    rougeLsum: summaryScore(lines(reference), lines(candidate)),
  };
}

/** Runs of ASCII letters and digits, lower-cased; anything else separates. */
function words(text: string): readonly string[] {
  return text.toLowerCase().match(/[a-z0-9]+/g) ?? [];
}

function lines(text: string): readonly (readonly string[])[] {
  return text
    .split("\n")
    .filter((line) => line.length > 0)
    .map(words);
}

function scoreOf(numHits: number, numGiven: number, numWanted: number): RougeScore {
  const precision = numGiven === 0 ? 0 : numHits / numGiven;
  const recall = numWanted === 0 ? 0 : numHits / numWanted;
  const fmeasure = precision + recall === 0 ? 0 : (2 * precision * recall) / (precision + recall);
  return { precision, recall, fmeasure };
}

function countsOf(items: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return counts;
}

function sharedGrams(wanted: readonly string[], given: readonly string[], length: 1 | 2): RougeScore {
  const [wantedCounts, givenCounts] = [countsOf(grams(wanted, length)), countsOf(grams(given, length))];
  let numHits = 0;
  for (const [gram, count] of wantedCounts) numHits += Math.min(count, givenCounts.get(gram) ?? 0);
  return scoreOf(numHits, numGrams(given, length), numGrams(wanted, length));
}

function grams(tokens: readonly string[], length: 1 | 2): readonly string[] {
  return Array.from({ length: numGrams(tokens, length) }, (_, i) => tokens.slice(i, i + length).join(" "));
}

function numGrams({ length: numTokens }: readonly string[], length: 1 | 2): number {
  return Math.max(0, numTokens - length + 1);
}

/**
 * ROUGE-Lsum: each line of the reference with all lines of the text; shared words are counted at most as often as both
 * have them.
 */
function summaryScore(wanted: readonly (readonly string[])[], given: readonly (readonly string[])[]): RougeScore {
  const [wantedCounts, givenCounts] = [countsOf(wanted.flat()), countsOf(given.flat())];
  let numHits = 0;
  for (const line of wanted) {
    const indices = new Set(given.flatMap((other) => commonIndices(line, other)));
    for (const index of [...indices].sort((a, b) => a - b)) {
      const token = line[index] ?? "";
      const [left, right] = [wantedCounts.get(token) ?? 0, givenCounts.get(token) ?? 0];
      if (left === 0 || right === 0) continue;
      numHits++;
      wantedCounts.set(token, left - 1);
      givenCounts.set(token, right - 1);
    }
  }
  return scoreOf(numHits, given.flat().length, wanted.flat().length);
}

/** Positions in `wanted` of a longest common subsequence, in no particular order. */
function commonIndices(wanted: readonly string[], given: readonly string[]): readonly number[] {
  const width = given.length + 1;
  const lengths = new Uint32Array((wanted.length + 1) * width);
  const at = (i: number, k: number): number => lengths[i * width + k] ?? 0;
  for (let i = 1; i <= wanted.length; i++) {
    for (let k = 1; k <= given.length; k++) {
      const isSame = wanted[i - 1] === given[k - 1];
      lengths[i * width + k] = isSame ? at(i - 1, k - 1) + 1 : Math.max(at(i - 1, k), at(i, k - 1));
    }
  }
  const indices: number[] = [];
  let [i, k] = [wanted.length, given.length];
  while (i > 0 && k > 0) {
    if (wanted[i - 1] === given[k - 1]) {
      indices.push(i - 1);
      i--;
      k--;
    } else if (at(i, k - 1) > at(i - 1, k)) k--;
    else i--;
  }
  return indices;
}
