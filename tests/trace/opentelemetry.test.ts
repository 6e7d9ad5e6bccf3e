/** The spans that the real server sends to a collector. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { clientVenv } from "../support/python-checks.ts";
import { type CollectedSpan, Collector } from "./collector.ts";
import { infer, startTracedServer } from "./trace-models.ts";

const options = { timeout: 120_000 };
const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const SPAN_ID = "b7ad6b7169203331";
const FROM_CALLER = { traceparent: `00-${TRACE_ID}-${SPAN_ID}-01`, tracestate: "vendor=1" };
const SERVER_KIND = 2;
const INTERNAL_KIND = 1;

async function startCollector(
  t: TestContext,
): Promise<{ collector: Collector; flags: (...more: string[]) => string[] }> {
  const collector = new Collector();
  const url = await collector.listen();
  t.after(() => collector.close());
  const common = [
    "mode=opentelemetry",
    "level=TIMESTAMPS",
    "opentelemetry,protocol=http/json",
    `opentelemetry,url=${url}`,
  ];
  return { collector, flags: (...more) => [...common, ...more].map((setting) => `--trace-config=${setting}`) };
}

/** The name of a span and those of its ancestors, from the inside out. */
function line(span: CollectedSpan, all: readonly CollectedSpan[]): string {
  const parent = all.find(({ spanId }) => spanId === span.parentSpanId);
  return parent === undefined ? span.name : `${span.name} < ${line(parent, all)}`;
}

function attribute(span: CollectedSpan | undefined, key: string): unknown {
  return span?.attributes.find((one) => one.key === key)?.value;
}

test("an ensemble is a tree of spans below the span of its request", options, async (t) => {
  const { collector, flags } = await startCollector(t);
  const resource = "opentelemetry,resource=service.name=mine";
  const server = await startTracedServer(t, flags("rate=1", resource));
  await infer(server, "both", { id: "r7" });
  await server.stop();
  const { spans } = collector;
  assert.deepEqual(spans.map((span) => line(span, spans)).sort(), [
    "InferRequest",
    "both < InferRequest",
    "compute < other < both < InferRequest",
    "compute < same < both < InferRequest",
    "other < both < InferRequest",
    "queue < other < both < InferRequest",
    "queue < same < both < InferRequest",
    "same < both < InferRequest",
  ]);
  assert.equal(new Set(spans.map(({ traceId }) => traceId)).size, 1);
  assert.deepEqual(
    new Set(spans.filter(({ kind }) => kind === SERVER_KIND).map(({ name }) => name)),
    new Set(["InferRequest"]),
  );
  assert.deepEqual(collector.paths, ["POST /v1/traces application/json"]);
  assert.deepEqual(collector.resources, [[{ key: "service.name", value: { stringValue: "mine" } }]]);
  const same = spans.find(({ name }) => name === "same");
  assert.equal(same?.kind, INTERNAL_KIND);
  assert.deepEqual(attribute(same, "triton.model_version"), { intValue: "1" });
  assert.deepEqual(attribute(same, "triton.request_id"), { stringValue: "r7" });
  assert.deepEqual(attribute(same, "triton.trace_parent_id"), { intValue: "1" });
});

test("every span lies within its parent and carries the moments that belong to it", options, async (t) => {
  const { collector, flags } = await startCollector(t);
  const server = await startTracedServer(t, flags("rate=1"));
  await infer(server, "same");
  await server.stop();
  const [root, model, queue, compute] = collector.spans;
  const names = (span: CollectedSpan | undefined): string[] => (span?.events ?? []).map(({ name }) => name).sort();
  assert.deepEqual(names(root), [
    "HTTP_RECV_END",
    "HTTP_RECV_START",
    "HTTP_SEND_END",
    "HTTP_SEND_START",
    "INFER_RESPONSE_COMPLETE",
  ]);
  assert.deepEqual(names(model), ["QUEUE_START", "REQUEST_END", "REQUEST_START"]);
  assert.deepEqual(names(queue), []);
  assert.equal(queue?.endTimeUnixNano, compute?.startTimeUnixNano);
  assert.deepEqual(names(compute), ["COMPUTE_END", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_START"]);
  const bounds = [root, model, compute].map((span) => [
    BigInt(span?.startTimeUnixNano ?? 0),
    BigInt(span?.endTimeUnixNano ?? 0),
  ]);
  for (const [i, [start = 0n, end = 0n]] of bounds.slice(1).entries()) {
    const [outerStart = 0n, outerEnd = 0n] = bounds[i] ?? [];
    assert.ok(outerStart <= start && start <= end && end <= outerEnd, JSON.stringify(collector.spans, null, 1));
  }
});

test("a caller's context makes the request a part of its trace, whatever the rate", options, async (t) => {
  const { collector, flags } = await startCollector(t);
  const server = await startTracedServer(t, flags("rate=0"));
  await infer(server, "same");
  await infer(server, "same", { headers: FROM_CALLER });
  await infer(server, "same", { headers: { traceparent: `00-${"0".repeat(32)}-${SPAN_ID}-01` } });
  await server.stop();
  const [root, ...inner] = collector.spans;
  assert.deepEqual(
    [root?.name, root?.traceId, root?.parentSpanId, root?.traceState],
    ["InferRequest", TRACE_ID, SPAN_ID, "vendor=1"],
  );
  assert.deepEqual(
    inner.map(({ name, traceId }) => [name, traceId]),
    [
      ["same", TRACE_ID],
      ["queue", TRACE_ID],
      ["compute", TRACE_ID],
    ],
  );
});

test("a call of a model is a child when the model hands its trace on, and the context is readable", {
  ...options,
  skip: clientVenv.reason ?? false,
}, async (t) => {
  const { collector, flags } = await startCollector(t);
  const server = await startTracedServer(t, flags("rate=0"), { withPython: true });
  await infer(server, "caller", { headers: FROM_CALLER });
  await server.stop();
  const { spans } = collector;
  assert.deepEqual(spans.map((span) => line(span, spans)).sort(), [
    "InferRequest",
    "caller < InferRequest",
    "compute < caller < InferRequest",
    "compute < same < caller < InferRequest",
    "queue < caller < InferRequest",
    "queue < same < caller < InferRequest",
    "same < caller < InferRequest",
  ]);
  const caller = spans.find(({ name }) => name === "caller");
  assert.ok(server.log().includes(`00-${TRACE_ID}-${caller?.spanId}-01`), server.log());
});

test("a collector that is not there costs no request, and the server ends", options, async (t) => {
  const flags = ["mode=opentelemetry", "level=TIMESTAMPS", "rate=1", "opentelemetry,url=http://127.0.0.1:9/v1/traces"];
  const server = await startTracedServer(
    t,
    flags.map((setting) => `--trace-config=${setting}`),
  );
  await infer(server, "same");
  await server.stop();
  assert.match(server.log(), /4 spans are lost: http:\/\/127\.0\.0\.1:9\/v1\/traces could not be reached: /);
});

test("the settings of mode opentelemetry can be read", options, async (t) => {
  const server = await startTracedServer(t, [
    "--trace-config=mode=opentelemetry",
    "--trace-config=opentelemetry,bsp_schedule_delay=100",
  ]);
  const response = await fetch(`${server.baseUrl}/v2/trace/setting`);
  assert.deepEqual(await response.json(), {
    trace_level: ["OFF"],
    trace_rate: "1000",
    trace_count: "-1",
    trace_mode: "opentelemetry",
    url: "http://localhost:4318/v1/traces",
    resource: "service.name=triton-inference-server",
    bsp_max_queue_size: "2048",
    bsp_schedule_delay: "100",
    bsp_max_export_batch_size: "512",
  });
  await server.stop();
});
