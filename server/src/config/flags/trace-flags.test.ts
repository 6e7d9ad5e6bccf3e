import assert from "node:assert/strict";
import { test } from "node:test";
import { parseServerFlags } from "./parse-server-flags.ts";
import type { ServerOptions } from "./server-options.ts";

function options(argv: readonly string[]): ServerOptions {
  const parsed = parseServerFlags(argv, {});
  assert.equal(parsed.kind, "options", JSON.stringify(parsed));
  return (parsed as { options: ServerOptions }).options;
}

test("parseServerFlags() joins the settings of --trace-config", () => {
  const { trace } = options([
    "--trace-config=level=TIMESTAMPS",
    "--trace-config=rate=50",
    "--trace-config=count=7",
    "--trace-config=triton,file=/tmp/t.json",
    "--trace-config=triton,log-frequency=3",
    "--trace-config=opentelemetry,url=http://ignored",
  ]);
  assert.deepEqual(trace, {
    mode: "triton",
    levels: ["TIMESTAMPS"],
    rate: 50,
    count: 7,
    file: "/tmp/t.json",
    logFrequency: 3,
    opentelemetry: [],
  });
});

test("parseServerFlags() keeps the settings of mode opentelemetry in their order", () => {
  const { trace } = options([
    "--trace-config=mode=opentelemetry",
    "--trace-config=opentelemetry,resource=a=1",
    "--trace-config=opentelemetry,resource=b=2",
  ]);
  assert.deepEqual(
    [trace.mode, trace.opentelemetry],
    [
      "opentelemetry",
      [
        ["resource", "a=1"],
        ["resource", "b=2"],
      ],
    ],
  );
});

test("parseServerFlags() lets OFF win over every other trace level", () => {
  assert.deepEqual(options(["--trace-config=level=OFF", "--trace-config=level=TENSORS"]).trace.levels, []);
  assert.deepEqual(options(["--trace-level=max", "--trace-config=level=TENSORS"]).trace.levels, [
    "TIMESTAMPS",
    "TENSORS",
  ]);
});
