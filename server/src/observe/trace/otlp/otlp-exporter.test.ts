import assert from "node:assert/strict";
import { test } from "node:test";
import type { Logger } from "../../log.ts";
import { OtlpExporter } from "./otlp-exporter.ts";
import type { OtlpOutcome } from "./otlp-outcome.ts";
import { parseOtlpSettings } from "./otlp-settings.ts";
import type { OtlpSpan } from "./otlp-spans.ts";

const HOUR_MS = "3600000";
const TAKEN: OtlpOutcome = { kind: "taken", rejectedSpans: 0, message: "" };
const BUSY: OtlpOutcome = { kind: "busy", fault: "answered 503" };

interface Fixture {
  readonly exporter: OtlpExporter;
  /** Span names by request. */
  readonly sent: string[][];
  readonly lines: string[];
  readonly pausesMs: number[];
}

/** A collector that gives these answers, then takes everything. Pauses take no time. */
function fixture(answers: readonly OtlpOutcome[], settings: Readonly<Record<string, string>> = {}): Fixture {
  const sent: string[][] = [];
  const lines: string[] = [];
  const pausesMs: number[] = [];
  const left = [...answers];
  const write = (_: string, message: string): void => void lines.push(message);
  const log: Logger = { info: write, warn: write, error: write, verbose: () => undefined, table: write };
  const exporter = new OtlpExporter({
    settings: parseOtlpSettings(Object.entries({ bsp_schedule_delay: HOUR_MS, ...settings }), {}),
    log,
    sender: {
      send: async ({ spans: batch }) => {
        sent.push(batch.map(({ name }) => name));
        return left.shift() ?? TAKEN;
      },
      close: () => undefined,
    },
    pause: async (ms) => void pausesMs.push(ms),
  });
  return { exporter, sent, lines, pausesMs };
}

function spans(...names: readonly string[]): OtlpSpan[] {
  const times = { startTimeUnixNano: "1", endTimeUnixNano: "2" };
  return names.map((name) => ({ traceId: "t", spanId: name, name, kind: 1, ...times, attributes: [], events: [] }));
}

test("add() sends a batch at its full size, one at a time, and `close()` the rest", async () => {
  const { exporter, sent } = fixture([], { bsp_max_export_batch_size: "2" });
  exporter.add(spans("a"));
  assert.deepEqual(sent, []);
  exporter.add(spans("b", "c"));
  await exporter.close();
  assert.deepEqual(sent, [["a", "b"], ["c"]]);
});

test("spans beyond the queue are dropped and counted", async () => {
  const { exporter, sent, lines } = fixture([], { bsp_max_queue_size: "3" });
  exporter.add(spans("a", "b"));
  exporter.add(spans("c", "d", "e"));
  await exporter.close();
  assert.deepEqual(sent, [["a", "b", "c"]]);
  assert.deepEqual(lines, ["the queue of spans is full: 2 are lost so far"]);
});

test("a busy collector gets the same batch again, after growing pauses", async () => {
  const { exporter, sent, lines, pausesMs } = fixture([BUSY, BUSY, BUSY]);
  exporter.add(spans("a"));
  await exporter.close();
  assert.deepEqual(sent, [["a"], ["a"], ["a"], ["a"]]);
  assert.deepEqual(lines, []);
  const [first = 0, second = 0, third = 0] = pausesMs;
  assert.ok(first >= 400 && second > first && third > second, String(pausesMs));
});

test("a pause that the collector asks for is kept", async () => {
  const { exporter, sent, pausesMs } = fixture([{ ...BUSY, retryAfterMs: 1234 }]);
  exporter.add(spans("a"));
  await exporter.close();
  assert.deepEqual(pausesMs, [1234]);
  assert.equal(sent.length, 2);
});

test("a pause that ends behind the time limit drops the batch at once", async () => {
  const { exporter, sent, lines } = fixture([{ ...BUSY, retryAfterMs: 60_000 }], { timeout: "30000" });
  exporter.add(spans("a"));
  await exporter.close();
  assert.deepEqual(sent, [["a"]]);
  assert.deepEqual(lines, ["1 spans are lost: http://localhost:4318/v1/traces answered 503"]);
});

for (const [title, answer, line] of [
  ["refuses a batch", { kind: "refused", fault: "answered 400: no" }, "2 spans are lost: URL answered 400: no"],
  [
    "rejects spans of a batch",
    { kind: "taken", rejectedSpans: 1, message: "too old" },
    "1 of 2 spans are lost: URL rejected them: too old",
  ],
  ["warns", { kind: "taken", rejectedSpans: 0, message: "use gRPC" }, "URL warns: use gRPC"],
] as const) {
  test(`a collector that ${title} is not asked again, and the log says so`, async () => {
    const { exporter, sent, lines } = fixture([answer]);
    exporter.add(spans("a", "b"));
    await exporter.close();
    assert.deepEqual(sent, [["a", "b"]]);
    assert.deepEqual(lines, [line.replace("URL", "http://localhost:4318/v1/traces")]);
  });
}
