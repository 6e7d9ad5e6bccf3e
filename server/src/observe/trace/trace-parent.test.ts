import assert from "node:assert/strict";
import { test } from "node:test";
import { readTraceParent, traceContextJson } from "./trace-parent.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

function read(traceparent: string | undefined, tracestate?: string): ReturnType<typeof readTraceParent> {
  return readTraceParent({ header: (name) => ({ traceparent, tracestate })[name] });
}

test("`readTraceParent()` reads ids and state", () => {
  assert.deepEqual(read(`00-${TRACE}-${SPAN}-01`, "a=1"), { traceId: TRACE, spanId: SPAN, state: "a=1" });
  assert.deepEqual(read(`00-${TRACE}-${SPAN}-00`), { traceId: TRACE, spanId: SPAN, state: "" });
});

test("`readTraceParent()` takes a later version that says more", () => {
  assert.equal(read(`01-${TRACE}-${SPAN}-01-more`)?.spanId, SPAN);
});

test("`readTraceParent()` drops a state that is too long", () => {
  assert.equal(read(`00-${TRACE}-${SPAN}-01`, "a=".padEnd(513, "1"))?.state, "");
});

for (const [title, text] of [
  ["nothing", undefined],
  ["an empty text", ""],
  ["no ids", "00"],
  ["version ff", `ff-${TRACE}-${SPAN}-01`],
  ["more than version 00 has", `00-${TRACE}-${SPAN}-01-more`],
  ["a trace id of zeros", `00-${"0".repeat(32)}-${SPAN}-01`],
  ["a span id of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
  ["upper-case digits", `00-${TRACE.toUpperCase()}-${SPAN}-01`],
  ["a short id", `00-${TRACE.slice(1)}-${SPAN}-01`],
] as const) {
  test(`\`readTraceParent()\` finds no parent in ${title}`, () => assert.equal(read(text), undefined));
}

test("`traceContextJson()` is read back by `readTraceParent()`", () => {
  const parent = { traceId: TRACE, spanId: SPAN, state: "a=1" };
  const { traceparent, tracestate } = JSON.parse(traceContextJson(parent)) as Record<string, string>;
  assert.deepEqual(read(traceparent, tracestate), parent);
});
