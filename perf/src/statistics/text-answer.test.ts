import assert from "node:assert/strict";
import { test } from "node:test";
import type { KeptAnswer } from "../load/load-messages.ts";
import { readAnswer } from "./text-answer.ts";
import { recordOf, textMetrics } from "./text-metrics.ts";

/** An answer whose parts came at these times. */
function kept(parts: readonly (readonly [atMs: number, text: string])[]): KeptAnswer {
  return {
    request: 0,
    startMs: 100,
    endMs: parts.at(-1)?.[0] ?? 100,
    partsMs: Float64Array.from(parts, ([atMs]) => atMs),
    parts: parts.map(([, text]) => Buffer.from(text).toString("latin1")),
    failure: undefined,
  };
}

const chat = (content: string): string => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`;

test("readAnswer() takes the time at which the end of an event came, and skips events without text", () => {
  const first = chat("né");
  const answer = readAnswer(
    kept([
      [110, chat("") + first.slice(0, 20)],
      [120, first.slice(20) + chat("a")],
      [130, `${chat("b")}data: {"choices":[],"usage":{"completion_tokens":7}}\n\ndata: [DONE]\n\n`],
    ]),
  );
  assert.deepEqual(answer.textMs, [120, 120, 130]);
  assert.equal(answer.text, "néab");
  assert.equal(answer.completionTokens, 7);
  assert.equal(answer.failure, undefined);
});

for (const [name, body, text] of [
  ["a chat", { choices: [{ message: { content: "hi" } }] }, "hi"],
  ["a chat with reasoning", { choices: [{ message: { reasoning_content: "so ", content: "hi" } }] }, "so hi"],
  ["a completion", { choices: [{ text: "hi" }] }, "hi"],
  ["generate", { text_output: "hi" }, "hi"],
] as const) {
  test(`readAnswer() reads ${name} that is not streamed`, () => {
    const answer = readAnswer(kept([[150, JSON.stringify(body)]]));
    assert.deepEqual([answer.text, answer.textMs, answer.failure], [text, [150], undefined]);
  });
}

test("readAnswer() tells an error inside a stream, a body that is no JSON, and an answer without text", () => {
  assert.equal(readAnswer(kept([[110, `${chat("a")}data: {"error":"no memory"}\n\n`]])).failure, '"no memory"');
  assert.match(readAnswer(kept([[110, "<html>"]])).failure ?? "", /expected JSON, got '<html>'/);
  assert.equal(readAnswer(kept([[110, "data: [DONE]\n\n"]])).failure, "the answer holds no text");
});

test("textMetrics() computes the figures of GenAI-Perf, and goodput by every objective", () => {
  const answer = (startMs: number, textMs: readonly number[]): Parameters<typeof recordOf>[0] => ({
    request: 0,
    startMs,
    textMs,
    text: "",
    completionTokens: undefined,
    failure: undefined,
  });
  const records = [recordOf(answer(0, [100, 150, 300]), 5, 5), recordOf(answer(500, [900, 1000]), 5, 2)];
  const metrics = textMetrics(records, 1, [
    { name: "time_to_first_token", limitMs: 200 },
    { name: "inter_token_latency", limitMs: 50 },
  ]);
  const mean = (name: string): number | undefined => metrics.summaries.get(name)?.mean;
  assert.equal(mean("time_to_first_token_ms"), 250);
  assert.equal(mean("time_to_second_token_ms"), 75);
  assert.equal(mean("request_latency_ms"), 400);
  assert.equal(mean("inter_token_latency_ms"), 75);
  assert.deepEqual([metrics.seconds, metrics.requestsPerSecond, metrics.outputTokensPerSecond], [1, 2, 7]);
  assert.deepEqual([metrics.goodput, metrics.numFailed], [1, 1]);
});
