import assert from "node:assert/strict";
import { test } from "node:test";
import type { Logger } from "../log.ts";
import { OtlpExporter } from "./otlp-exporter.ts";
import { parseOtlpSettings } from "./otlp-settings.ts";
import type { OtlpSpan } from "./otlp-spans.ts";

const HOUR_MS = "3600000";

interface Fixture {
  readonly exporter: OtlpExporter;
  /** Span names by request. */
  readonly sent: string[][];
  readonly lines: string[];
}

/** A collector that gives these answers, then takes everything. `undefined`: it cannot be reached. */
function fixture(answers: readonly (number | undefined)[], settings: Readonly<Record<string, string>> = {}): Fixture {
  const sent: string[][] = [];
  const lines: string[] = [];
  const left = [...answers];
  const write = (_: string, message: string): void => void lines.push(message);
  const log: Logger = { info: write, warn: write, error: write, verbose: () => undefined, table: write };
  const fetch = async (_: unknown, options?: RequestInit): Promise<Response> => {
    const status = left.length === 0 ? 200 : left.shift();
    if (status === undefined) throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
    const body = JSON.parse(String(options?.body)) as {
      resourceSpans: { scopeSpans: { spans: { name: string }[] }[] }[];
    };
    sent.push(
      body.resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans.map((s) => s.name))),
    );
    return new Response("{}", { status });
  };
  const written = Object.entries({ bsp_schedule_delay: HOUR_MS, ...settings });
  return { exporter: new OtlpExporter({ settings: parseOtlpSettings(written, {}), log, fetch }), sent, lines };
}

function spans(...names: readonly string[]): OtlpSpan[] {
  const times = { startTimeUnixNano: "1", endTimeUnixNano: "2" };
  return names.map((name) => ({ traceId: "t", spanId: name, name, kind: 1, ...times, attributes: [], events: [] }));
}

test("`add()` sends nothing until a batch is full, `close()` sends the rest", async () => {
  const { exporter, sent } = fixture([], { bsp_max_export_batch_size: "2" });
  exporter.add(spans("a"));
  assert.deepEqual(sent, []);
  exporter.add(spans("b", "c"));
  await exporter.close();
  assert.deepEqual(sent, [["a", "b"], ["c"]]);
});

test("`add()` drops what the queue has no room for and says so", async () => {
  const { exporter, sent, lines } = fixture([], { bsp_max_queue_size: "3" });
  exporter.add(spans("a", "b"));
  exporter.add(spans("c", "d", "e"));
  await exporter.close();
  assert.deepEqual(sent, [["a", "b", "c"]]);
  assert.deepEqual(lines, ["the queue of spans is full: 2 are lost so far"]);
});

test("a batch is sent again when the collector is not there or busy", async () => {
  const { exporter, sent, lines } = fixture([undefined, 503]);
  exporter.add(spans("a"));
  await exporter.close();
  assert.deepEqual(sent, [["a"], ["a"]]);
  assert.deepEqual(lines, []);
});

for (const [title, answers, reason, tries] of [
  ["refuses it", [400], "answered 400", 1],
  ["stays busy", [503, 503, 503], "answered 503", 3],
  ["is not there", [undefined, undefined, undefined], "could not be reached: connect ECONNREFUSED", 0],
] as const) {
  test(`a batch is given up when the collector ${title}`, async () => {
    const { exporter, sent, lines } = fixture(answers);
    exporter.add(spans("a"));
    await exporter.close();
    assert.equal(sent.length, tries);
    assert.deepEqual(lines, [`1 spans are lost: http://localhost:4318/v1/traces ${reason}`]);
  });
}

for (const [key, value] of [
  ["url", "ftp://x"],
  ["url", "nowhere"],
  ["resource", "novalue"],
  ["bsp_max_queue_size", "0"],
  ["bsp_schedule_delay", "1.5"],
] as const) {
  test(`\`parseOtlpSettings()\` refuses ${key}=${value} and names it`, () => {
    assert.throws(() => parseOtlpSettings([[key, value]], {}), {
      code: "invalid_argument",
      message: new RegExp(`^--trace-config opentelemetry,${key}= expects .*, got '${value}'$`),
    });
  });
}

test("`parseOtlpSettings()` takes from the environment what no flag says", () => {
  const env = { OTEL_BSP_MAX_QUEUE_SIZE: "7", OTEL_BSP_SCHEDULE_DELAY: "9", OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "5" };
  const { maxQueueSize, scheduleDelayMs, maxExportBatchSize } = parseOtlpSettings([["bsp_schedule_delay", "11"]], env);
  assert.deepEqual([maxQueueSize, scheduleDelayMs, maxExportBatchSize], [7, 11, 5]);
});
