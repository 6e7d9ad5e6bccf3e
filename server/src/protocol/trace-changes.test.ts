import assert from "node:assert/strict";
import { test } from "node:test";
import type { TraceSettings } from "../core/request-trace.ts";
import { readTraceChanges, shownTraceSettings, type WrittenTraceSettings } from "./trace-changes.ts";

type Written = Readonly<Record<string, string | readonly string[] | null>>;

function written(fields: Written): WrittenTraceSettings {
  const map = new Map(Object.entries(fields));
  return {
    has: (name) => map.has(name),
    beforeCount: "",
    list: (name) => map.get(name) as readonly string[] | null | undefined,
    text: (name) => map.get(name) as string | null | undefined,
  };
}

for (const [fields, changes] of [
  [{}, {}],
  [{ zzz: "1", trace_mode: "opentelemetry" }, {}],
  [{ trace_rate: "9" }, { rate: 9 }],
  [{ trace_rate: " 9x" }, { rate: 9 }],
  [{ trace_rate: "-5" }, { rate: 4_294_967_291 }],
  [
    { trace_rate: null, trace_count: null },
    { rate: null, count: null },
  ],
  [
    { trace_count: "-1", log_frequency: "3" },
    { count: -1, logFrequency: 3 },
  ],
  [{ trace_level: ["OFF"] }, { levels: [] }],
  [{ trace_level: ["TENSORS", "TIMESTAMPS", "TENSORS"] }, { levels: ["TIMESTAMPS", "TENSORS"] }],
  [{ trace_level: ["LOTS"] }, {}],
  [{ trace_level: [] }, {}],
  [{ trace_level: null }, { levels: null }],
] as const) {
  test(`\`readTraceChanges()\` reads ${JSON.stringify(fields)}`, () => {
    assert.deepEqual(readTraceChanges(written(fields)), changes);
  });
}

for (const [fields, code, message] of [
  [{ trace_file: null }, "unsupported", "trace file location can not be updated through network protocol"],
  [{ trace_level: ["OFF", "TENSORS"] }, "invalid_argument", "Expect only one trace level 'OFF' is specified"],
  [{ trace_rate: "x" }, "invalid_argument", "Unable to parse 'trace_rate', got: x"],
  [
    { log_frequency: "2147483648" },
    "invalid_argument",
    "Unable to parse 'log_frequency', value is out of range [ 0, 4294967295 ], got: 2147483648",
  ],
  [
    { trace_count: "-2147483649" },
    "invalid_argument",
    "Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: -2147483649",
  ],
  [{ trace_count: "-2" }, "invalid_argument", "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"],
] as const) {
  test(`\`readTraceChanges()\` refuses ${JSON.stringify(fields)}`, () => {
    assert.throws(() => readTraceChanges(written(fields)), { code, message });
  });
}

test("`shownTraceSettings()` shows only what the mode knows", () => {
  const settings: TraceSettings = {
    mode: "opentelemetry",
    levels: ["TIMESTAMPS"],
    rate: 0,
    count: -1,
    logFrequency: 4,
    file: "f",
    modeSettings: [["url", "http://x"]],
  };
  assert.deepEqual(shownTraceSettings(settings), [
    ["trace_level", ["TIMESTAMPS"]],
    ["trace_rate", "0"],
    ["trace_count", "-1"],
    ["trace_mode", "opentelemetry"],
    ["url", "http://x"],
  ]);
});
