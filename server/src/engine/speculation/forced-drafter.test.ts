/** Runs of tokens that a schema forces, with a real model: fewer steps, the same output. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { loadTokenizer } from "../../formats/tokenizer/tokenizer-files.ts";
import { createDecoderRunner } from "../cpu/cpu-runner.ts";
import { DEFAULT_ENGINE_CONFIG } from "../engine-config.ts";
import { GrammarGuides } from "../guide/grammar-guides.ts";
import { LlmEngine } from "../llm-engine.ts";
import { type GenerateRequest, NEUTRAL_REQUEST, type Usage } from "../request/generate.ts";

const MODEL = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model/", import.meta.url));
const VOCAB = 6144;
const NAMES = ["name", "age", "street", "city", "country", "email", "is_active", "balance", "currency", "language"];

const SCHEMA = JSON.stringify({
  type: "object",
  properties: Object.fromEntries(
    NAMES.flatMap((name, i) => [
      [name, [{ type: "boolean" }, { type: "null" }, { enum: ["yes", "no", "unknown"] }][i % 3]],
      [`${name}_before`, { type: "boolean" }],
    ]),
  ),
  required: NAMES.flatMap((name) => [name, `${name}_before`]),
  additionalProperties: false,
});

const tokenizer = await loadTokenizer(MODEL);
/** The model has never seen JSON: without blanks between the parts it writes what larger ones write. */
const NO_BLANKS = new Float32Array(VOCAB);
for (let id = 0; id < VOCAB; id++) {
  if (/^\s*$/.test(tokenizer.decode([id], { skipSpecialTokens: false }))) NO_BLANKS[id] = -100;
}

interface Output {
  readonly tokens: readonly number[];
  readonly logProbs: readonly number[];
  readonly numChunks: number;
  readonly usage: Usage;
}

const runner = await createDecoderRunner({
  modelDir: MODEL,
  blockSize: 16,
  numBlocks: 256,
  numThreads: 1,
  isDeterministic: true,
});
const guides = new GrammarGuides({ tokenizerDir: MODEL, vocabSize: VOCAB });
const engine = new LlmEngine(runner, DEFAULT_ENGINE_CONFIG, undefined, { guides });
after(() => engine.close());

async function outputOf(changes: Partial<GenerateRequest>): Promise<Output> {
  const request = {
    ...NEUTRAL_REQUEST,
    promptTokens: Int32Array.of(1, 40, 50, 60),
    endIds: Int32Array.of(2),
    guide: { type: "json_schema", text: SCHEMA } as const,
    logitBias: NO_BLANKS,
    maxTokens: 320,
    logProbs: true,
    ...changes,
  };
  const [tokens, logProbs]: [number[], number[]] = [[], []];
  let numChunks = 0;
  let usage: Usage | undefined;
  for await (const chunk of engine.generate(request)) {
    tokens.push(...chunk.tokenIds);
    logProbs.push(...chunk.logProbs);
    numChunks += 1;
    usage = chunk.usage;
  }
  assert.ok(usage !== undefined);
  return { tokens, logProbs, numChunks, usage };
}

const CASES: readonly (readonly [string, Partial<GenerateRequest>])[] = [
  ["greedy", {}],
  ["sampled", { temperature: 0.9, topK: 0, topP: 0.95, seed: 11n }],
  ["with penalties", { repetitionPenalty: 1.1, temperature: 1, topK: 0, seed: 12n }],
  ["with a least length", { minTokens: 30, temperature: 1, topK: 0, seed: 13n }],
];

for (const [what, changes] of CASES) {
  test(`generate() jumps over the fixed text of 20 fields and gives the same output, ${what}`, async () => {
    const plain = await outputOf({ ...changes, maxDraftTokens: 0 });
    const numStepsPlain = runner.timings.numSteps;
    const [jumping, beside] = await Promise.all([outputOf(changes), outputOf({ ...changes, maxTokens: 100 })]);
    const numSteps = runner.timings.numSteps - numStepsPlain;
    assert.deepEqual(jumping.tokens, plain.tokens);
    assert.deepEqual(jumping.logProbs, plain.logProbs);
    assert.deepEqual(beside.tokens, plain.tokens.slice(0, 100));
    assert.equal(plain.usage.draftTokens, 0);
    assert.ok(jumping.usage.acceptedDraftTokens > 0);
    assert.ok(numSteps < plain.tokens.length, `${numSteps} steps for ${plain.tokens.length} tokens`);
    const text = tokenizer.decode([...jumping.tokens], { skipSpecialTokens: true });
    assert.deepEqual(Object.keys(JSON.parse(text) as object).length, 2 * NAMES.length);
  });
}
