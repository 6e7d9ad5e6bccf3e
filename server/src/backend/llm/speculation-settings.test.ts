import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerError } from "../../core/server-error.ts";
import { parseSpeculation, type SpeculationParameters } from "./speculation-settings.ts";

function parametersOf(given: Readonly<Record<string, string>>): SpeculationParameters & { readonly notes: string[] } {
  const notes: string[] = [];
  return {
    notes,
    text: (key) => given[key],
    flag: (key) => (given[key] === undefined ? undefined : given[key] === "true"),
    int: (key) => (given[key] === undefined ? undefined : Number(given[key])),
    note: (text) => notes.push(text),
    error: (key, expected, text) => new ServerError("invalid_argument", `'${key}' is '${text}', expected ${expected}`),
  };
}

const CASES: readonly {
  readonly given: Readonly<Record<string, string>>;
  readonly expected: readonly [
    maxDraftTokens: number,
    ngramSize: number,
    draftModel?: string | undefined,
    usesMtp?: boolean,
  ];
  readonly note?: RegExp;
}[] = [
  { given: {}, expected: [0, 0] },
  { given: { num_draft_tokens: "4" }, expected: [0, 0] },
  { given: { speculative_ngram_size: "4" }, expected: [5, 4] },
  { given: { speculative_model: "small", num_draft_tokens: "3" }, expected: [3, 0, "/models/llm/small"] },
  { given: { speculative_model: "/small.gguf", speculative_ngram_size: "2" }, expected: [5, 2, "/small.gguf"] },
  { given: { decoding_mode: "lookahead" }, expected: [5, 3], note: /looks n-grams up/ },
  { given: { decoding_mode: "lookahead", lookahead_ngram_size: "7" }, expected: [5, 7], note: /looks n-grams up/ },
  { given: { lookahead_window_size: "5", lookahead_ngram_size: "1" }, expected: [5, 2], note: /no effect/ },
  { given: { decoding_mode: "medusa" }, expected: [0, 0], note: /'medusa': heads of the checkpoint are not read/ },
  { given: { decoding_mode: "top_k" }, expected: [0, 0] },
  { given: { decoding_mode: "eagle" }, expected: [0, 0], note: /'eagle' without a 'speculative_model'/ },
  { given: { decoding_mode: "eagle", speculative_model: "head" }, expected: [5, 0, "/models/llm/head"] },
  { given: { speculative_mtp: "true", num_draft_tokens: "2" }, expected: [2, 0, undefined, true] },
  { given: { speculative_mtp: "false" }, expected: [0, 0] },
];

for (const { given, expected, note } of CASES) {
  test(`parseSpeculation() reads ${JSON.stringify(given)}`, () => {
    const parameters = parametersOf(given);
    const { config, ...models } = parseSpeculation(parameters, "/models/llm");
    const [maxDraftTokens, ngramSize, draftModel, usesMtp = false] = expected;
    assert.deepEqual({ config, ...models }, { config: { maxDraftTokens, ngramSize }, draftModel, usesMtp });
    assert.equal(parameters.notes.length, note === undefined ? 0 : 1);
    assert.match(parameters.notes.join(""), note ?? /^$/);
  });
}

test("parseSpeculation() refuses a draft model beside the model's own layer", () => {
  const parameters = parametersOf({ speculative_mtp: "true", speculative_model: "small" });
  assert.throws(() => parseSpeculation(parameters, "/models"), /'speculative_mtp' is 'true', expected false beside/);
});

test("parseSpeculation() refuses more drafts than a step should have rows for, and none", () => {
  for (const count of ["0", "65"]) {
    const parameters = parametersOf({ speculative_ngram_size: "3", num_draft_tokens: count });
    assert.throws(() => parseSpeculation(parameters, "/models"), /'num_draft_tokens' is '\d+', expected 1 to 64/);
  }
});
