/**
 * Calls of tools through `/v1/chat/completions`, by a model that knows nothing, at temperature 1. Half of the answers are
 * streamed, and some are asked for both ways with one seed, which must agree: no delta is lost or doubled.
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { ChatTool, ToolChoice } from "@nereid/server/chat/chat-contract";
import { loadTokenizer } from "@nereid/server/formats/tokenizer/tokenizer-files";
import { createRandom } from "../support/random.ts";
import type { ServerProcess } from "../support/server-process.ts";
import { expectValidCall, type MadeCall } from "./expect-call.ts";
import { randomTools } from "./random-tools.ts";

const MODEL_FOLDER = fileURLToPath(new URL("../../examples/nereid-tiny/language_model", import.meta.url));
const MAX_TOKENS = 400;
const WIDTH = 32;
const CLOSING_BIAS = 6;
/** A hang, on a machine that does much other work: 32 answers of 400 tokens run at once. */
const ANSWER_TIMEOUT_MS = 1_200_000;
/** Lists of tools of one run: most of its time goes into grammars, which the engine keeps. */
const TOOL_SETS = 8;
/** One answer of so many is asked for streamed and whole. */
const TWIN_EVERY = 8;

export interface ServedCounts {
  readonly answers: number;
  readonly streamed: number;
  /** Answers that were also asked for the other way. */
  readonly twins: number;
  readonly calls: number;
  /** Answers that the token limit cut off: their last call may be unfinished. */
  readonly cut: number;
  /** Texts of the schemas. */
  readonly schemas: readonly string[];
}

/**
 * A model that knows nothing would spend its tokens on blanks between the parts of JSON, and seldom end a text. Blanks are
 * ruled out, since they may be; marks that end a text, a list or an object are a few hundred times as likely.
 */
const biases: Promise<Readonly<Record<string, number>>> = loadTokenizer(MODEL_FOLDER).then((tokenizer) => {
  const texts = Array.from({ length: tokenizer.vocabularySize }, (_, id) =>
    tokenizer.decode([id], { skipSpecialTokens: false }),
  );
  const rows = texts.map((text, id) => [String(id), biasOf(text)] as const);
  return Object.fromEntries(rows.filter(([, bias]) => bias !== 0));
});

function biasOf(text: string): number {
  if (/^\s+$/.test(text)) return -100;
  return /^["}\]]+$|^<\/?$/.test(text) ? CLOSING_BIAS : 0;
}

interface Ask {
  readonly model: string;
  readonly tools: readonly ChatTool[];
  readonly choice: ToolChoice;
  readonly isParallel: boolean;
  readonly seed: number;
}

interface Answer {
  readonly calls: readonly MadeCall[];
  readonly content: string;
  readonly finish: string;
}

/** @throws AssertionError naming the format and the seed of the first fault */
export async function runServedCalls(
  server: ServerProcess,
  { model, format, seed, numAnswers }: { model: string; format: string; seed: number; numAnswers: number },
): Promise<ServedCounts> {
  const random = createRandom(seed);
  const seeds = Array.from({ length: numAnswers }, () => random.below(2 ** 31));
  const counts: ServedCounts[] = [];
  const worker = async (): Promise<void> => {
    for (let next = seeds.pop(); next !== undefined; next = seeds.pop()) {
      const hasTwin = seeds.length % TWIN_EVERY === 0;
      const toolSeed = seed * TOOL_SETS + (seeds.length % TOOL_SETS);
      const where = `format ${format}, tools ${toolSeed}, seed ${next}`;
      counts.push(await askOnce(server, randomAsk(model, next, toolSeed), hasTwin, where));
    }
  };
  await Promise.all(Array.from({ length: WIDTH }, worker));
  return counts.reduce(addCounts, NOTHING);
}

const NOTHING: ServedCounts = { answers: 0, streamed: 0, twins: 0, calls: 0, cut: 0, schemas: [] };

export function addCounts(a: ServedCounts, b: ServedCounts): ServedCounts {
  return {
    answers: a.answers + b.answers,
    streamed: a.streamed + b.streamed,
    twins: a.twins + b.twins,
    calls: a.calls + b.calls,
    cut: a.cut + b.cut,
    schemas: [...a.schemas, ...b.schemas],
  };
}

async function askOnce(server: ServerProcess, ask: Ask, hasTwin: boolean, where: string): Promise<ServedCounts> {
  const isStreamed = ask.seed % 2 === 0;
  const answer = await checkedAnswer(server, ask, isStreamed, where);
  if (hasTwin) await expectTwin(server, ask, isStreamed, answer, where);
  const asked = hasTwin ? 2 : 1;
  return {
    answers: asked,
    streamed: isStreamed || hasTwin ? 1 : 0,
    twins: hasTwin ? 1 : 0,
    calls: answer.calls.length * asked,
    cut: answer.finish === "length" ? asked : 0,
    schemas: ask.tools.map((tool) => JSON.stringify(tool.function.parameters)),
  };
}

function randomAsk(model: string, seed: number, toolSeed: number): Ask {
  const random = createRandom(toolSeed);
  const tools = randomTools(random);
  const choice: ToolChoice = random.below(4) === 0 ? { name: tools[0]?.function.name ?? "" } : "required";
  return { model, tools, choice, isParallel: random.below(3) !== 0, seed };
}

async function checkedAnswer(server: ServerProcess, ask: Ask, isStreamed: boolean, where: string): Promise<Answer> {
  const answer = await (isStreamed ? streamed : whole)(server, ask, where);
  const isCut = answer.finish === "length";
  const complete = isCut ? answer.calls.slice(0, -1) : answer.calls;
  assert.ok(isCut || complete.length > 0, `${where}: no call in ${JSON.stringify(answer)}`);
  // The token limit may cut off the mark of a call, which is text then.
  assert.ok(isCut || answer.content === "", `${where}: text beside calls: ${JSON.stringify(answer)}`);
  for (const call of complete) expectValidCall(call, ask.tools, ask.choice, where);
  return { ...answer, calls: complete };
}

async function expectTwin(
  server: ServerProcess,
  ask: Ask,
  isStreamed: boolean,
  answer: Answer,
  where: string,
): Promise<void> {
  const twin = await checkedAnswer(server, ask, !isStreamed, where);
  assert.deepEqual(twin, answer, `${where}: streamed and whole differ`);
}

async function post(server: ServerProcess, ask: Ask, stream: boolean, where: string): Promise<Response> {
  const { model, tools, choice, isParallel, seed } = ask;
  const response = await fetch(`${server.baseUrl}/v1/chat/completions`, {
    method: "POST",
    signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    body: JSON.stringify({
      model,
      messages: [{ role: "user", content: "Call a tool." }],
      tools,
      tool_choice: typeof choice === "object" ? { type: "function", function: choice } : choice,
      parallel_tool_calls: isParallel,
      max_completion_tokens: MAX_TOKENS,
      temperature: 1,
      logit_bias: await biases,
      seed,
      stream,
    }),
  });
  if (response.status !== 200) assert.fail(`${where}: ${response.status} ${await response.text()}`);
  return response;
}

interface SentCall {
  readonly index: number;
  readonly id?: string;
  readonly function: { readonly name?: string; readonly arguments: string };
}

async function whole(server: ServerProcess, ask: Ask, where: string): Promise<Answer> {
  const response = await post(server, ask, false, where);
  const {
    choices,
  }: { choices: { message: { content: string | null; tool_calls?: SentCall[] }; finish_reason: string }[] } =
    JSON.parse(await response.text());
  const [choice] = choices;
  assert.ok(choice !== undefined, where);
  const calls = (choice.message.tool_calls ?? []).map(({ function: { name = "", arguments: json } }) => ({
    name,
    json,
  }));
  return { calls, content: choice.message.content ?? "", finish: choice.finish_reason };
}

async function streamed(server: ServerProcess, ask: Ask, where: string): Promise<Answer> {
  const text = await (await post(server, ask, true, where)).text();
  const events = text.split("\n\n").filter((event) => event !== "");
  assert.equal(events.pop(), "data: [DONE]", where);
  const calls: (MadeCall & { id: string })[] = [];
  let content = "";
  const finishes: string[] = [];
  for (const event of events) {
    const {
      choices,
    }: { choices: { delta: { content?: string | null; tool_calls?: SentCall[] }; finish_reason: string | null }[] } =
      JSON.parse(event.slice("data: ".length));
    for (const { delta, finish_reason: finish } of choices) {
      assert.equal(finishes.length, 0, `${where}: a delta behind the end`);
      content += delta.content ?? "";
      for (const call of delta.tool_calls ?? []) addDelta(calls, call, where);
      if (finish !== null) finishes.push(finish);
    }
  }
  assert.equal(new Set(calls.map(({ id }) => id)).size, calls.length, `${where}: one id for two calls`);
  return { calls: calls.map(({ name, json }) => ({ name, json })), content, finish: finishes.join() };
}

/** Names and identifiers come once, deltas only for the last call. */
function addDelta(calls: (MadeCall & { id: string })[], { index, id, function: part }: SentCall, where: string): void {
  if (id !== undefined) {
    assert.equal(index, calls.length, `${where}: order of calls`);
    calls.push({ id, name: part.name ?? "", json: part.arguments });
    return;
  }
  const call = calls[index];
  assert.ok(call !== undefined && index === calls.length - 1, `${where}: a delta of a call that is not open`);
  call.json += part.arguments;
}
