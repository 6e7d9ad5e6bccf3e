import assert from "node:assert/strict";
import { test } from "node:test";
import type { Environment } from "../../../core/environment.ts";
import { type OtlpSettings, parseOtlpSettings, shownOtlpSettings } from "./otlp-settings.ts";

type Written = readonly (readonly [string, string])[];

test("parseOtlpSettings() has the defaults of the specification", () => {
  const { protocol, url, timeoutMs, compression, headers, warnings } = parseOtlpSettings([], {});
  assert.deepEqual(
    [protocol, url, timeoutMs, compression, [...headers], warnings],
    ["http/protobuf", "http://localhost:4318/v1/traces", 10_000, "none", [], []],
  );
});

/** From the specification's "Endpoint URLs for OTLP/HTTP" and "Configuration Options". */
const URLS: readonly (readonly [title: string, written: Written, env: Environment, url: string])[] = [
  ["gRPC has a port of its own", [["protocol", "grpc"]], {}, "http://localhost:4317"],
  ["the path is appended", [], { OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318" }, "http://c:4318/v1/traces"],
  ["to a path too", [], { OTEL_EXPORTER_OTLP_ENDPOINT: "https://c/otlp/" }, "https://c/otlp/v1/traces"],
  ["not to one of traces", [], { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://c/mine" }, "http://c/mine"],
  [
    "traces come first",
    [],
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://a", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://b/" },
    "http://b/",
  ],
  ["the flag comes before both", [["url", "http://f/x"]], { OTEL_EXPORTER_OTLP_ENDPOINT: "http://a" }, "http://f/x"],
  ["empty is unset", [], { OTEL_EXPORTER_OTLP_ENDPOINT: "" }, "http://localhost:4318/v1/traces"],
  ["gRPC takes no path", [["protocol", "grpc"]], { OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:1" }, "http://c:1"],
  ["without a scheme gRPC is secure", [["protocol", "grpc"]], { OTEL_EXPORTER_OTLP_ENDPOINT: "c:1" }, "https://c:1"],
  [
    "unless it is said to be insecure",
    [],
    { OTEL_EXPORTER_OTLP_PROTOCOL: "grpc", OTEL_EXPORTER_OTLP_ENDPOINT: "c:1", OTEL_EXPORTER_OTLP_INSECURE: "true" },
    "http://c:1",
  ],
];

for (const [title, written, env, url] of URLS) {
  test(`the URL of the collector: ${title}`, () => assert.equal(parseOtlpSettings(written, env).url, url));
}

const READ: readonly (readonly [env: Environment, read: (settings: OtlpSettings) => unknown, value: unknown])[] = [
  [{ OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" }, ({ protocol }) => protocol, "http/json"],
  [{ OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "grpc" }, ({ protocol }) => protocol, "grpc"],
  [{ OTEL_EXPORTER_OTLP_TIMEOUT: "250" }, ({ timeoutMs }) => timeoutMs, 250],
  [{ OTEL_EXPORTER_OTLP_COMPRESSION: "gzip" }, ({ compression }) => compression, "gzip"],
  [
    { OTEL_EXPORTER_OTLP_HEADERS: "Api-Key=a%20b, x = 1=2 ," },
    ({ headers }) => [...headers],
    [
      ["api-key", "a b"],
      ["x", "1=2"],
    ],
  ],
  [
    { OTEL_RESOURCE_ATTRIBUTES: "service.name=a,zone=b", OTEL_SERVICE_NAME: "s" },
    ({ resource }) => [...resource],
    [
      ["service.name", "s"],
      ["zone", "b"],
    ],
  ],
  [
    { OTEL_BSP_MAX_QUEUE_SIZE: "7" },
    ({ maxQueueSize, maxExportBatchSize }) => [maxQueueSize, maxExportBatchSize],
    [7, 7],
  ],
];

for (const [env, read, value] of READ) {
  test(`${Object.keys(env).join(" and ")} is read`, () => assert.deepEqual(read(parseOtlpSettings([], env)), value));
}

test("an invalid variable is ignored with a warning, and headers are not repeated in it", () => {
  const { protocol, timeoutMs, url, warnings } = parseOtlpSettings([], {
    OTEL_EXPORTER_OTLP_PROTOCOL: "http",
    OTEL_EXPORTER_OTLP_TIMEOUT: "-1",
    OTEL_EXPORTER_OTLP_ENDPOINT: "c:1",
    OTEL_EXPORTER_OTLP_HEADERS: "secret",
    OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: "zstd",
  });
  assert.deepEqual([protocol, timeoutMs, url], ["http/protobuf", 10_000, "http://localhost:4318/v1/traces"]);
  assert.deepEqual(warnings, [
    "OTEL_EXPORTER_OTLP_PROTOCOL is ignored: expected grpc, http/protobuf, http/json, got 'http'",
    "OTEL_EXPORTER_OTLP_HEADERS is ignored: expected <key>=<value>,...",
    "OTEL_EXPORTER_OTLP_ENDPOINT is ignored: expected a URL of http or https, got 'c:1'",
    "OTEL_EXPORTER_OTLP_TIMEOUT is ignored: expected a number of milliseconds from 1 to 3600000, got '-1'",
    "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION is ignored: expected none, gzip, got 'zstd'",
  ]);
});

for (const [key, value] of [
  ["url", "ftp://x"],
  ["url", "nowhere"],
  ["protocol", "thrift"],
  ["compression", "zstd"],
  ["timeout", "0"],
  ["resource", "novalue"],
  ["bsp_max_queue_size", "0"],
  ["bsp_schedule_delay", "1.5"],
] as const) {
  test(`--trace-config opentelemetry,${key}=${value} is refused with what is expected`, () => {
    assert.throws(() => parseOtlpSettings([[key, value]], {}), {
      code: "invalid_argument",
      message: new RegExp(`^--trace-config opentelemetry,${key}= expects .*, got '${value}'$`),
    });
  });
}

test("the flag comes before the environment", () => {
  const env = { OTEL_BSP_MAX_QUEUE_SIZE: "7", OTEL_BSP_SCHEDULE_DELAY: "9", OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "5" };
  const { maxQueueSize, scheduleDelayMs, maxExportBatchSize } = parseOtlpSettings([["bsp_schedule_delay", "11"]], env);
  assert.deepEqual([maxQueueSize, scheduleDelayMs, maxExportBatchSize], [7, 11, 5]);
});

test("shownOtlpSettings() shows no headers", () => {
  const shown = shownOtlpSettings(parseOtlpSettings([["headers", "authorization=secret"]], {}));
  assert.equal(JSON.stringify(shown).includes("secret"), false);
});
