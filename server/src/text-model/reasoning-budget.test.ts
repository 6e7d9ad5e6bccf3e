import assert from "node:assert/strict";
import { test } from "node:test";
import { BudgetedModel, type Generator, type ReasoningBudget } from "./reasoning-budget.ts";
import {
  type CallFacts,
  PLAIN_REQUEST,
  type TakeChunk,
  type TextChunk,
  type TextGeneration,
  type TextRequest,
} from "./text-request.ts";

const CALL: CallFacts = { id: "", arrivalMs: 0, signal: new AbortController().signal, isCancelled: false };
const REASONING = ["<think>", "one ", "two ", "three ", "</think>", "answer"];

/** A model whose answer is given, a chunk a token; behind a closed reasoning it says "rest". */
class ScriptedModel implements Generator {
  readonly requests: TextRequest[] = [];
  numReturned = 0;
  readonly #pieces: readonly string[];

  constructor(pieces: readonly string[]) {
    this.#pieces = pieces;
  }

  generate(request: TextRequest): Promise<TextGeneration> {
    this.requests.push(request);
    const prompt = "text" in request.prompt ? request.prompt.text : "";
    const chunks = (prompt.includes("</think>") ? ["re", "st"] : this.#pieces).map(chunkOf);
    const next = (): Promise<TextChunk | undefined> => Promise.resolve(chunks.shift());
    const deliver = async (take: TakeChunk): Promise<void> => {
      for (let chunk = await next(); chunk !== undefined; chunk = await next()) await take(chunk);
    };
    const stop = (): Promise<void> => {
      this.numReturned += 1;
      return Promise.resolve();
    };
    return Promise.resolve({ next, deliver, return: stop });
  }
}

function chunkOf(text: string, index: number, all: readonly string[]): TextChunk {
  const usage = { promptTokens: 5, outputTokens: index + 1, cachedTokens: 0 };
  return { text, scores: [], usage, finish: index === all.length - 1 ? "stop" : undefined };
}

function budgetOf(maxTokens: number, isOpen = false): ReasoningBudget {
  return { maxTokens, open: "<think>", close: "</think>", isOpen, prompt: "p ", guideAfter: () => undefined };
}

async function run(
  pieces: readonly string[],
  budget: ReasoningBudget,
): Promise<{ readonly text: string; readonly outputTokens: number | undefined; readonly model: ScriptedModel }> {
  const model = new ScriptedModel(pieces);
  const request = { ...PLAIN_REQUEST, prompt: { text: "p " }, maxTokens: 10 };
  const generation = await new BudgetedModel(model, budget).generate(request, CALL);
  let text = "";
  let last: TextChunk | undefined;
  await generation.deliver((chunk) => {
    text += chunk.text;
    last = chunk;
    return undefined;
  });
  assert.equal(last?.finish, "stop");
  return { text, outputTokens: last.usage.outputTokens, model };
}

test("BudgetedModel closes reasoning at its budget and goes on behind it", async () => {
  const { text, outputTokens, model } = await run(REASONING, budgetOf(3));
  assert.equal(text, "<think>one two \n</think>\n\nrest");
  assert.equal(outputTokens, 5);
  assert.equal(model.numReturned, 1);
  const [, second] = model.requests;
  assert.deepEqual(second?.prompt, { text: "p <think>one two \n</think>\n\n" });
  assert.equal(second?.maxTokens, 7);
});

test("BudgetedModel counts reasoning that the prompt has opened", async () => {
  const { text } = await run(["one ", "two ", "three ", "</think>", "answer"], budgetOf(2, true));
  assert.equal(text, "one two \n</think>\n\nrest");
});

const UNCUT: readonly (readonly [what: string, pieces: readonly string[], maxTokens: number])[] = [
  ["reasoning within the budget", REASONING, 20],
  ["an answer without reasoning", ["a", "b", "c", "d"], 2],
  ["a mark that comes in pieces and fits", ["<th", "ink>", "one", "</thi", "nk>", "answer"], 5],
];

for (const [what, pieces, maxTokens] of UNCUT) {
  test(`BudgetedModel leaves ${what} as it is`, async () => {
    const { text, model } = await run(pieces, budgetOf(maxTokens));
    assert.equal(text, pieces.join(""));
    assert.equal(model.requests.length, 1);
  });
}
