import assert from "node:assert/strict";
import { test } from "node:test";
import type { OutputDelta } from "../../chat/chat-contract.ts";
import { type BlockStep, MessageBlocks } from "./message-blocks.ts";

const SHOWN = { isShown: true, isOmitted: false };

/** Steps as short words: "start text", "append one", "stop". */
function stepsOf(deltas: readonly OutputDelta[], display = SHOWN): readonly string[] {
  const blocks = new MessageBlocks(display);
  return [...deltas.flatMap((delta) => blocks.read([delta])), ...blocks.end()].map(wordsOf);
}

function wordsOf(step: BlockStep): string {
  if (step.step === "start") return `start ${step.index} ${step.block.type}`;
  if (step.step === "append") return `append ${step.index} ${step.text}`;
  return `${step.step} ${step.index}`;
}

const text = (value: string): OutputDelta => ({ type: "text", text: value });
const reasoning = (value: string): OutputDelta => ({ type: "reasoning", text: value });

test("MessageBlocks opens one block at a time, in the order of the deltas", () => {
  const deltas: readonly OutputDelta[] = [
    reasoning("a"),
    reasoning("b"),
    text("c"),
    { type: "tool-call-start", index: 0, id: "t", name: "f" },
    { type: "tool-call-arguments", index: 0, text: "{}" },
    { type: "tool-call-end", index: 0 },
    text("d"),
  ];
  assert.deepEqual(stepsOf(deltas), [
    "start 0 thinking",
    "append 0 a",
    "append 0 b",
    "sign 0",
    "stop 0",
    "start 1 text",
    "append 1 c",
    "stop 1",
    "start 2 tool_use",
    "append 2 {}",
    "stop 2",
    "start 3 text",
    "append 3 d",
    "stop 3",
  ]);
});

test("MessageBlocks begins no text for white space alone, and keeps it in front of words", () => {
  const call: OutputDelta = { type: "tool-call-start", index: 0, id: "t", name: "f" };
  assert.deepEqual(stepsOf([text("\n"), text(" "), call]), ["start 0 tool_use", "stop 0"]);
  assert.deepEqual(stepsOf([text(" "), text(" a")]), ["start 0 text", "append 0   a", "stop 0"]);
});

test("MessageBlocks leaves reasoning out, or its text, as the display says", () => {
  const deltas = [reasoning("a"), text("b")];
  const behind = ["append 0 b", "stop 0"];
  assert.deepEqual(stepsOf(deltas, { isShown: false, isOmitted: false }), ["start 0 text", ...behind]);
  const omitted = ["start 0 thinking", "sign 0", "stop 0", "start 1 text", "append 1 b", "stop 1"];
  assert.deepEqual(stepsOf(deltas, { isShown: true, isOmitted: true }), omitted);
});
