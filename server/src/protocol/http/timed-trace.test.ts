import assert from "node:assert/strict";
import { test } from "node:test";
import type { RequestTrace, TraceMoment } from "../../core/request-trace.ts";
import { TimedTrace } from "./timed-trace.ts";

test("summary() tells the spans that are over, and the total", () => {
  const trace = new TimedTrace(undefined);
  assert.equal(trace.summary(10, 12.5), "total;dur=2.500");
  const moments: readonly (readonly [TraceMoment, number])[] = [
    ["HTTP_RECV_START", 10],
    ["HTTP_RECV_END", 10.25],
    ["QUEUE_START", 10.5],
    ["COMPUTE_START", 11],
    ["COMPUTE_INPUT_END", 11.125],
    ["COMPUTE_INPUT_END", 99],
  ];
  for (const [moment, atMs] of moments) trace.mark(moment, atMs);
  const spans = "recv;dur=0.250, queue;dur=0.500, compute-input;dur=0.125";
  assert.equal(trace.summary(10, 12.5), `${spans}, total;dur=2.500`);
});

test("TimedTrace hands everything on to the trace that is sampled", () => {
  const calls: string[] = [];
  const note = (name: string) => (): void => void calls.push(name);
  const sampled = {
    context: "{}",
    mark: note("mark"),
    tensors: note("tensors"),
    begin: note("begin"),
    end: note("end"),
    child: (name: string) => ({ name }) as unknown as RequestTrace,
  };
  const trace = new TimedTrace(sampled);
  trace.mark("QUEUE_START", 0);
  trace.tensors("TENSOR_QUEUE_INPUT", []);
  trace.begin("1", "", 0);
  trace.end();
  assert.deepEqual(calls, ["mark", "tensors", "begin", "end"]);
  assert.equal(trace.context, "{}");
  assert.deepEqual(trace.child("step"), { name: "step" });
  assert.ok(new TimedTrace(undefined).child("step") instanceof TimedTrace);
});
