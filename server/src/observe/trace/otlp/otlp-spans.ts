/** Converts a trace tree to OpenTelemetry spans in the fields of OTLP. Ids and clock are passed in. Pure. */
import type { TraceMoment } from "../../../core/request-trace.ts";
import type { TraceClock } from "../trace-clock.ts";
import type { TraceParent } from "../trace-parent.ts";
import type { TraceNode } from "../trace-record.ts";

export interface OtlpAttribute {
  readonly key: string;
  readonly value: { readonly stringValue: string } | { readonly intValue: string };
}

export interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly OtlpAttribute[];
  readonly events: readonly { readonly timeUnixNano: string; readonly name: string }[];
}

export interface OtlpTree {
  readonly traceId: string;
  /** The caller's span. */
  readonly parent: TraceParent | undefined;
  /** Span id of the client's request. */
  readonly rootSpanId: string;
  /** Span id of the model that serves a trace. */
  spanIdOf(id: number): string;
  newSpanId(): string;
}

const KIND_INTERNAL = 1;
const KIND_SERVER = 2;

type Moments = TraceNode["moments"];

export function otlpSpans(nodes: readonly TraceNode[], tree: OtlpTree, clock: TraceClock): OtlpSpan[] {
  const all = nodes.flatMap(({ moments }) => moments).sort((a, b) => a.atMs - b.atMs);
  const [root] = nodes;
  const front = root?.moments.filter(({ name }) => isOfFrontEnd(name)) ?? [];
  const { traceId, parent, rootSpanId } = tree;
  const inferRequest: OtlpSpan = {
    traceId,
    spanId: rootSpanId,
    ...(parent === undefined ? {} : { parentSpanId: parent.spanId }),
    ...(parent === undefined || parent.state === "" ? {} : { traceState: parent.state }),
    name: "InferRequest",
    kind: KIND_SERVER,
    ...timesOf(all, clock),
    attributes: [],
    events: eventsOf(front, clock),
  };
  const served = nodes.filter(({ modelVersion }) => modelVersion !== "");
  return [inferRequest, ...served.flatMap((node) => modelSpans(node, tree, clock))];
}

/** The span of the model with child spans for queueing and computation, if it computed anything itself. */
function modelSpans(node: TraceNode, tree: OtlpTree, clock: TraceClock): OtlpSpan[] {
  const compute = node.moments.filter(({ name }) => name.startsWith("COMPUTE_"));
  const rest = node.moments.filter(
    ({ name }) => !name.startsWith("COMPUTE_") && (node.parentId !== 0 || !isOfFrontEnd(name)),
  );
  const { traceId } = tree;
  const spanId = tree.spanIdOf(node.id);
  const parentSpanId = node.parentId === 0 ? tree.rootSpanId : tree.spanIdOf(node.parentId);
  const common = { traceId, kind: KIND_INTERNAL };
  const model: OtlpSpan = {
    ...common,
    spanId,
    parentSpanId,
    name: node.modelName,
    ...timesOf(rest, clock),
    attributes: attributesOf(node),
    events: eventsOf(rest, clock),
  };
  const own = { ...common, parentSpanId: spanId, attributes: [] };
  const queued = queueMoments(node.moments);
  const queue: OtlpSpan[] =
    queued.length < 2
      ? []
      : [{ ...own, spanId: tree.newSpanId(), name: "queue", ...timesOf(queued, clock), events: [] }];
  if (compute.length === 0) return [model, ...queue];
  const computed: OtlpSpan = {
    ...own,
    spanId: tree.newSpanId(),
    name: "compute",
    ...timesOf(compute, clock),
    events: eventsOf(compute, clock),
  };
  return [model, ...queue, computed];
}

/** From queue start to compute start. Its events stay with the model's span. */
function queueMoments(moments: Moments): Moments {
  const start = moments.find(({ name }) => name === "QUEUE_START");
  const end = moments.find(({ name }) => name === "COMPUTE_START");
  return start === undefined || end === undefined ? [] : [start, end];
}

function attributesOf(node: TraceNode): OtlpAttribute[] {
  const attributes: OtlpAttribute[] = [
    { key: "triton.model_name", value: { stringValue: node.modelName } },
    { key: "triton.model_version", value: { intValue: node.modelVersion } },
    { key: "triton.trace_id", value: { intValue: String(node.id) } },
    { key: "triton.trace_parent_id", value: { intValue: String(node.parentId) } },
  ];
  if (node.requestId !== "") attributes.push({ key: "triton.request_id", value: { stringValue: node.requestId } });
  return attributes;
}

/** The client's request as seen by its front end, including the responses. */
function isOfFrontEnd(name: TraceMoment): boolean {
  return name.startsWith("HTTP_") || name.startsWith("GRPC_") || name === "INFER_RESPONSE_COMPLETE";
}

function timesOf(
  moments: Moments,
  clock: TraceClock,
): { readonly startTimeUnixNano: string; readonly endTimeUnixNano: string } {
  let first = Number.POSITIVE_INFINITY;
  let last = 0;
  for (const { atMs } of moments) {
    first = Math.min(first, atMs);
    last = Math.max(last, atMs);
  }
  return {
    startTimeUnixNano: String(clock.unixNs(Math.min(first, last))),
    endTimeUnixNano: String(clock.unixNs(last)),
  };
}

function eventsOf(moments: Moments, clock: TraceClock): OtlpSpan["events"] {
  return moments.map(({ name, atMs }) => ({ timeUnixNano: String(clock.unixNs(atMs)), name }));
}
