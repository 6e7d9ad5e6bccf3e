/** From the events of a trace to the spans of a waterfall. Pure. Source: Triton's trace extension. */
import type { TraceMoment } from "../../core/request-trace.ts";
import type { RecentTrace } from "../../observe/trace/recent-traces.ts";
import type { ConsoleSpan, ConsoleTrace, ConsoleTraceRow, SpanKind } from "./console-types.ts";

type Node = RecentTrace["nodes"][number];

/** First and last event of each kind of span, in the order of a request. */
const SPANS: readonly (readonly [SpanKind, readonly TraceMoment[], readonly TraceMoment[]])[] = [
  ["receive", ["HTTP_RECV_START", "GRPC_WAITREAD_START"], ["HTTP_RECV_END", "GRPC_WAITREAD_END"]],
  ["queue", ["QUEUE_START"], ["COMPUTE_START"]],
  ["input", ["COMPUTE_START"], ["COMPUTE_INPUT_END"]],
  ["compute", ["COMPUTE_INPUT_END"], ["COMPUTE_OUTPUT_START"]],
  ["output", ["COMPUTE_OUTPUT_START"], ["COMPUTE_END"]],
  ["send", ["HTTP_SEND_START", "GRPC_SEND_START"], ["HTTP_SEND_END", "GRPC_SEND_END"]],
];
/** A page draws no more ticks than its screen has pixels. */
const MAX_RESPONSES = 4000;

/** `unixOriginMs`: Unix time of the zero of the events' clock. */
export function traceRow(trace: RecentTrace, unixOriginMs: number): ConsoleTraceRow {
  const [root] = trace.nodes;
  const { firstMs, lastMs } = extent(trace.nodes);
  const spans = trace.nodes.flatMap((node) => partsOf(node, 0, firstMs));
  const total = (kind: SpanKind): number =>
    spans.filter((span) => span.kind === kind).reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0);
  return {
    id: trace.id,
    model: root?.modelName ?? "",
    version: root?.modelVersion ?? "",
    requestId: root?.requestId ?? "",
    startMs: unixOriginMs + firstMs,
    durationMs: lastMs - firstMs,
    queueMs: total("queue"),
    computeMs: total("compute"),
    numResponses: root === undefined ? 0 : responsesOf(root).length,
  };
}

export function traceDetail(trace: RecentTrace, unixOriginMs: number): ConsoleTrace {
  const { firstMs } = extent(trace.nodes);
  const [root] = trace.nodes;
  return {
    ...traceRow(trace, unixOriginMs),
    spans: inTree(trace.nodes).flatMap(({ node, depth }) => spansOf(node, depth, firstMs)),
    responsesMs: root === undefined ? [] : responsesOf(root).map((atMs) => atMs - firstMs),
  };
}

/** Parents before their children, children in the order of their start. */
function inTree(nodes: readonly Node[]): readonly { readonly node: Node; readonly depth: number }[] {
  const startOf = (node: Node): number => extent([node]).firstMs;
  const childrenOf = new Map<number, Node[]>();
  for (const node of nodes) childrenOf.set(node.parentId, [...(childrenOf.get(node.parentId) ?? []), node]);
  const walk = (node: Node, depth: number): readonly { node: Node; depth: number }[] => {
    const children = [...(childrenOf.get(node.id) ?? [])].sort((a, b) => startOf(a) - startOf(b));
    return [{ node, depth }, ...children.flatMap((child) => walk(child, depth + 1))];
  };
  const [root] = nodes;
  return root === undefined ? [] : walk(root, 0);
}

function spansOf(node: Node, depth: number, originMs: number): readonly ConsoleSpan[] {
  const { firstMs, lastMs } = extent([node]);
  const own = { kind: "request", model: node.modelName, depth } as const;
  return [{ ...own, startMs: firstMs - originMs, endMs: lastMs - originMs }, ...partsOf(node, depth, originMs)];
}

function partsOf({ moments, modelName }: Node, depth: number, originMs: number): readonly ConsoleSpan[] {
  return SPANS.flatMap(([kind, starts, ends]) => {
    const start = moments.find(({ name }) => starts.includes(name));
    const end = moments.findLast(({ name }) => ends.includes(name));
    if (start === undefined || end === undefined || end.atMs < start.atMs) return [];
    return [{ kind, model: modelName, depth, startMs: start.atMs - originMs, endMs: end.atMs - originMs }];
  });
}

function responsesOf({ moments }: Node): readonly number[] {
  const times = moments.filter(({ name }) => name === "INFER_RESPONSE_COMPLETE").map(({ atMs }) => atMs);
  return times.slice(0, MAX_RESPONSES);
}

function extent(nodes: readonly Node[]): { readonly firstMs: number; readonly lastMs: number } {
  let [firstMs, lastMs] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { moments } of nodes) {
    for (const { atMs } of moments) {
      firstMs = Math.min(firstMs, atMs);
      lastMs = Math.max(lastMs, atMs);
    }
  }
  return firstMs <= lastMs ? { firstMs, lastMs } : { firstMs: 0, lastMs: 0 };
}
