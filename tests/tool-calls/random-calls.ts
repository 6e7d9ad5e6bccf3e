/**
 * Calls of tools by a model that knows nothing, at temperature 1: the grammar of a format makes them, its parser reads
 * them back in random pieces, and the arguments must follow the schema.
 */
import assert from "node:assert/strict";
import type { ChatFormat, ChatTool, OutputDelta, ToolChoice } from "@nereid/server/chat/chat-contract";
import { createChatFormat } from "@nereid/server/chat/chat-format";
import { TOOL_ROWS } from "@nereid/server/chat/tools/tool-rows";
import { createRandom, type Random } from "../support/random.ts";
import type { ServerProcess } from "../support/server-process.ts";
import { expectValidCall, type MadeCall } from "./expect-call.ts";
import { randomTools } from "./random-tools.ts";

const MAX_TOKENS = 400;
const WIDTH = 4;

export interface CallCounts {
  readonly answers: number;
  readonly calls: number;
  /** Answers that the token limit cut off: their last call may be unfinished. */
  readonly cut: number;
}

interface Answer {
  readonly text: string;
  readonly isCut: boolean;
}

interface JoinedCall extends MadeCall {
  isOpen: boolean;
}

/** Each answer has at least one call. @throws AssertionError naming format and seed of the first fault */
export async function runRandomCalls(server: ServerProcess, seed: number, numAnswers: number): Promise<CallCounts> {
  const random = createRandom(seed);
  const seeds = Array.from({ length: numAnswers }, () => random.below(2 ** 31));
  let calls = 0;
  let cut = 0;
  const worker = async (): Promise<void> => {
    for (let next = seeds.pop(); next !== undefined; next = seeds.pop()) {
      const outcome = await oneAnswer(server, next, TOOL_ROWS[seeds.length % TOOL_ROWS.length]?.name ?? "");
      calls += outcome.calls;
      cut += outcome.isCut ? 1 : 0;
    }
  };
  await Promise.all(Array.from({ length: WIDTH }, worker));
  return { answers: numAnswers, calls, cut };
}

async function oneAnswer(
  server: ServerProcess,
  seed: number,
  format: string,
): Promise<{ readonly calls: number; readonly isCut: boolean }> {
  const random = createRandom(seed);
  const tools = randomTools(random);
  const choice: ToolChoice = random.below(4) === 0 ? { name: tools[0]?.function.name ?? "" } : "required";
  const source = { template: undefined, bosToken: undefined, eosToken: undefined, reasoningFormat: "none" };
  const chat = createChatFormat({ ...source, toolFormat: format });
  const where = `format ${format}, seed ${seed}`;
  const answer = await generate(server, chat, tools, choice, random.below(2) === 0, seed);
  const whole = joined(parse(chat, tools, choice, [answer.text]), where);
  const pieced = joined(parse(chat, tools, choice, piecesOf(answer.text, random)), where);
  assert.deepEqual(pieced, whole, `${where}: pieces change the calls of ${answer.text}`);
  const complete = answer.isCut ? whole.slice(0, -1) : whole;
  assert.ok(answer.isCut || complete.length > 0, `${where}: no call in ${answer.text}`);
  for (const call of complete) {
    assert.equal(call.isOpen, false, where);
    expectValidCall(call, tools, choice, `${where}: ${answer.text}`);
  }
  return { calls: complete.length, isCut: answer.isCut };
}

async function generate(
  server: ServerProcess,
  chat: ChatFormat,
  tools: readonly ChatTool[],
  choice: ToolChoice,
  isParallel: boolean,
  seed: number,
): Promise<Answer> {
  const guide = chat.tools.grammarFor(tools, choice, isParallel, "");
  assert.ok(guide !== undefined);
  const body = {
    model: "tensorrt_llm",
    prompt: "Call a tool:",
    max_tokens: MAX_TOKENS,
    temperature: 1,
    seed,
    response_format: JSON.parse(guide.text),
  };
  const response = await fetch(`${server.baseUrl}/v1/completions`, { method: "POST", body: JSON.stringify(body) });
  const text = await response.text();
  assert.equal(response.status, 200, `${chat.tools.name}, seed ${seed}: ${text}`);
  const { choices }: { choices: { text: string; finish_reason: string }[] } = JSON.parse(text);
  return { text: choices[0]?.text ?? "", isCut: choices[0]?.finish_reason === "length" };
}

function parse(
  chat: ChatFormat,
  tools: readonly ChatTool[],
  choice: ToolChoice,
  pieces: readonly string[],
): readonly OutputDelta[] {
  const parser = chat.openParser({ prompt: "", tools, choice });
  return [...pieces.flatMap((piece) => parser.push(piece)), ...parser.end()];
}

/** The calls of the deltas, whose order is checked on the way. */
function joined(deltas: readonly OutputDelta[], where: string): readonly JoinedCall[] {
  const calls: JoinedCall[] = [];
  for (const delta of deltas) {
    if (!("index" in delta)) continue;
    if (delta.type === "tool-call-start") {
      assert.equal(delta.index, calls.length, `${where}: order of calls`);
      calls.push({ name: delta.name, json: "", isOpen: true });
      continue;
    }
    const call = calls[delta.index];
    assert.ok(call?.isOpen, `${where}: a delta of a call that is not open`);
    if (delta.type === "tool-call-arguments") call.json += delta.text;
    else call.isOpen = false;
  }
  return calls;
}

function piecesOf(text: string, random: Random): readonly string[] {
  const mean = random.pick([1, 3, 10, 50]);
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    const length = 1 + random.below(2 * mean);
    pieces.push(text.slice(at, at + length));
    at += length;
  }
  return pieces;
}
