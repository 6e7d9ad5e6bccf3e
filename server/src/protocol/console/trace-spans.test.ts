import assert from "node:assert/strict";
import { test } from "node:test";
import type { RecentTrace } from "../../observe/trace/recent-traces.ts";
import { traceDetail, traceRow } from "./trace-spans.ts";

type Node = RecentTrace["nodes"][number];
type Moment = readonly [Node["moments"][number]["name"], number];

function node(id: number, parentId: number, modelName: string, ...moments: readonly Moment[]): Node {
  const kept = moments.map(([name, atMs]) => ({ name, atMs }));
  return { id, parentId, modelName, modelVersion: "1", requestId: "r", moments: kept, tensors: [] };
}

const COMPUTE = (queueMs: number, startMs: number, endMs: number): Moment[] => [
  ["REQUEST_START", queueMs],
  ["QUEUE_START", queueMs],
  ["COMPUTE_START", startMs],
  ["COMPUTE_INPUT_END", startMs],
  ["COMPUTE_OUTPUT_START", endMs],
  ["COMPUTE_END", endMs],
  ["REQUEST_END", endMs],
];

const ENSEMBLE: RecentTrace = {
  id: 1,
  nodes: [
    node(
      1,
      0,
      "ensemble",
      ["HTTP_RECV_START", 100],
      ["HTTP_RECV_END", 101],
      ["REQUEST_START", 102],
      ["REQUEST_END", 460],
    ),
    node(3, 1, "second", ...COMPUTE(120, 130, 450)),
    node(2, 1, "first", ...COMPUTE(103, 104, 110)),
  ],
};

test("`traceDetail()` places the steps of an ensemble below it, in the order of their starts", () => {
  const { spans, durationMs } = traceDetail(ENSEMBLE, 0);
  assert.equal(durationMs, 360);
  assert.deepEqual(
    spans.map(({ kind, model, depth, startMs, endMs }) => [model, kind, depth, startMs, endMs]),
    [
      ["ensemble", "request", 0, 0, 360],
      ["ensemble", "receive", 0, 0, 1],
      ["first", "request", 1, 3, 10],
      ["first", "queue", 1, 3, 4],
      ["first", "input", 1, 4, 4],
      ["first", "compute", 1, 4, 10],
      ["first", "output", 1, 10, 10],
      ["second", "request", 1, 20, 350],
      ["second", "queue", 1, 20, 30],
      ["second", "input", 1, 30, 30],
      ["second", "compute", 1, 30, 350],
      ["second", "output", 1, 350, 350],
    ],
  );
});

test("`traceRow()` adds the queues and the computation of all steps up", () => {
  const { model, queueMs, computeMs, startMs, numResponses } = traceRow(ENSEMBLE, 1000);
  assert.deepEqual([model, queueMs, computeMs, startMs, numResponses], ["ensemble", 11, 326, 1100, 0]);
});

test("`traceDetail()` gives the times of a stream's responses", () => {
  const responses = [20, 30, 45].map((atMs): Moment => ["INFER_RESPONSE_COMPLETE", atMs]);
  const trace = { id: 7, nodes: [node(7, 0, "words", ["REQUEST_START", 10], ...responses)] };
  assert.deepEqual(traceDetail(trace, 0).responsesMs, [10, 20, 35]);
});

test("`traceDetail()` has an answer for a request without events", () => {
  assert.deepEqual(traceDetail({ id: 1, nodes: [node(1, 0, "m")] }, 0).durationMs, 0);
});
