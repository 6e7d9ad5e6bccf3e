import assert from "node:assert/strict";
import { test } from "node:test";
import { cpuShare, LoadMeter, llmLoad } from "./load-report.ts";
import { MetricRegistry } from "./metrics.ts";

const MEMINFO = "MemTotal: 1000 kB\nMemAvailable: 250 kB\n";

function llmRegistry(...models: readonly { name: string; used: number; scheduled: number; waiting: number }[]) {
  const registry = new MetricRegistry();
  const add = (family: string, label: string, name: string, values: Record<string, number>): void => {
    registry.register({
      name: family,
      help: "",
      type: "gauge",
      collect: () =>
        Object.entries(values).map(([kind, value]) => ({
          labels: { model: name, version: "1", [label]: kind },
          value,
        })),
    });
  };
  for (const { name, used, scheduled, waiting } of models) {
    add("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", name, { used, max: 100, tokens_per: 32 });
    add("nv_trt_llm_request_metrics", "request_type", name, { scheduled, waiting, max: 8 });
  }
  return registry;
}

test("llmLoad() adds the caches of all models up and takes the scarcest thing as the utilization, which is never 0", () => {
  const cases = [
    { models: [{ name: "a", used: 0, scheduled: 0, waiting: 0 }], kv: 0, tokens: 3200, utilization: 0.05 },
    { models: [{ name: "a", used: 25, scheduled: 1, waiting: 0 }], kv: 0.25, tokens: 3200, utilization: 0.25 },
    { models: [{ name: "a", used: 25, scheduled: 6, waiting: 0 }], kv: 0.25, tokens: 3200, utilization: 0.75 },
    { models: [{ name: "a", used: 25, scheduled: 8, waiting: 80 }], kv: 0.25, tokens: 3200, utilization: 1 },
    {
      models: [
        { name: "a", used: 90, scheduled: 0, waiting: 0 },
        { name: "b", used: 10, scheduled: 2, waiting: 0 },
      ],
      kv: 0.5,
      tokens: 6400,
      utilization: 0.5,
    },
  ];
  for (const { models, kv, tokens, utilization } of cases) {
    assert.deepEqual(llmLoad(llmRegistry(...models)), {
      utilization,
      named: new Map([
        ["kv_cache_utilization", kv],
        ["max_token_capacity", tokens],
      ]),
    });
  }
});

test("llmLoad() is undefined when there is no language model", () => {
  assert.equal(llmLoad(new MetricRegistry()), undefined);
});

test("cpuShare() is never 0, so that balancers take the report", () => {
  assert.equal(cpuShare({ total: 0, idle: 0 }, { total: 100, idle: 25 }), 0.75);
  assert.equal(cpuShare({ total: 100, idle: 25 }, { total: 200, idle: 125 }), 0.01);
  assert.equal(cpuShare({ total: 100, idle: 25 }, { total: 100, idle: 25 }), undefined);
});

test("report() tells rates, machine and nothing of language models that are not there", () => {
  const meter = new LoadMeter(new MetricRegistry(), (name) => (name === "stat" ? "cpu 30 0 10 60 0 0 0 0\n" : MEMINFO));
  meter.count(false);
  meter.count(true);
  const { requestsPerSecond, errorsPerSecond, ...rest } = meter.report();
  assert.ok(requestsPerSecond > 0);
  assert.equal(errorsPerSecond, requestsPerSecond / 2);
  assert.deepEqual(rest, {
    cpuUtilization: 0.4,
    memoryUtilization: 0.75,
    applicationUtilization: undefined,
    named: new Map(),
  });
});

test("report() says that nothing is known of a machine without /proc", () => {
  const meter = new LoadMeter(new MetricRegistry(), () => {
    throw new Error("ENOENT");
  });
  assert.deepEqual([meter.report().cpuUtilization, meter.report().memoryUtilization], [0, 0]);
});
