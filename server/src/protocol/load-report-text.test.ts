import assert from "node:assert/strict";
import { test } from "node:test";
import protobuf from "protobufjs/light.js";
import type { LoadReport } from "../observe/load-report.ts";
import { loadHeader, loadTrailer } from "./load-report-text.ts";

const PLAIN: LoadReport = {
  cpuUtilization: 0.5,
  memoryUtilization: 0.25,
  applicationUtilization: undefined,
  requestsPerSecond: 12.5,
  errorsPerSecond: 0,
  named: new Map(),
};
const LLM: LoadReport = {
  ...PLAIN,
  applicationUtilization: 0.75,
  errorsPerSecond: 2,
  named: new Map([
    ["kv_cache_utilization", 0.125],
    ["max_token_capacity", 8192],
  ]),
};

// A map field, which the types of protobufjs take for a plain one.
const NAMED_METRICS: protobuf.IField = Object.assign({ type: "double", id: 8 }, { keyType: "string" });

const OrcaLoadReport = protobuf.Root.fromJSON({
  nested: {
    OrcaLoadReport: {
      fields: {
        cpu_utilization: { type: "double", id: 1 },
        mem_utilization: { type: "double", id: 2 },
        rps_fractional: { type: "double", id: 6 },
        eps: { type: "double", id: 7 },
        named_metrics: NAMED_METRICS,
        application_utilization: { type: "double", id: 9 },
      },
    },
  },
}).lookupType("OrcaLoadReport");

for (const [format, report, expected] of [
  ["text", PLAIN, "TEXT cpu_utilization=0.5, mem_utilization=0.25, rps_fractional=12.5, eps=0"],
  [
    "TEXT",
    LLM,
    "TEXT cpu_utilization=0.5, mem_utilization=0.25, application_utilization=0.75, rps_fractional=12.5, eps=2, named_metrics.kv_cache_utilization=0.125, named_metrics.max_token_capacity=8192",
  ],
  [
    "json",
    LLM,
    'JSON {"cpu_utilization":0.5,"mem_utilization":0.25,"application_utilization":0.75,"rps_fractional":12.5,"eps":2,"named_metrics":{"kv_cache_utilization":0.125,"max_token_capacity":8192}}',
  ],
  ["xml", LLM, undefined],
  ["", LLM, undefined],
] as const) {
  test(`loadHeader() writes ${expected ?? `nothing for '${format}'`}`, () => {
    assert.equal(loadHeader(format, report), expected);
  });
}

test("loadTrailer() is the message that gRPC balancers read", () => {
  const decoded = OrcaLoadReport.toObject(OrcaLoadReport.decode(Buffer.from(loadTrailer(LLM), "base64")));
  assert.deepEqual(decoded, {
    cpu_utilization: 0.5,
    mem_utilization: 0.25,
    application_utilization: 0.75,
    rps_fractional: 12.5,
    eps: 2,
    named_metrics: { kv_cache_utilization: 0.125, max_token_capacity: 8192 },
  });
});
