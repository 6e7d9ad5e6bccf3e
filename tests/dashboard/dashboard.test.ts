import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { registerLlmMetrics } from "../../server/src/backend/llm/llm-metrics.ts";
import { RequestFigures } from "../../server/src/backend/llm/request-figures.ts";
import { cpuFamilies, pinnedMemoryFamilies } from "../../server/src/observe/host-metrics.ts";
import { MetricRegistry } from "../../server/src/observe/metrics.ts";
import { cacheMetricFamilies } from "../../server/src/repository/metrics/cache-metrics.ts";
import { latencyMetricFamilies } from "../../server/src/repository/metrics/latency-metrics.ts";
import { modelMetricFamilies } from "../../server/src/repository/metrics/model-metrics.ts";
import { ModelRegistry } from "../../server/src/repository/registry.ts";
import { ResponseCache } from "../../server/src/scheduler/cache/response-cache.ts";

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[];
  readonly templating: { readonly list: readonly { readonly query: string }[] };
}

const CPU = (name: string): string => (name === "stat" ? "cpu 1 0 1 1 0 0 0 0\n" : "MemTotal: 2 kB\n");
const METRIC_NAME = /\b(?:nv_\w+|nereid_\w+|vllm:\w+)/g;
const dashboard = JSON.parse(
  readFileSync(new URL("../../docs/grafana/nereid.json", import.meta.url), "utf8"),
) as Dashboard;

/** The names and types of all that a server with every kind of model exports. */
function exportedFamilies(): ReadonlyMap<string, string> {
  const metrics = new MetricRegistry();
  const models = new ModelRegistry();
  const families = [
    ...cacheMetricFamilies(new ResponseCache(1_000_000), models),
    ...latencyMetricFamilies(models, { summaries: true, quantiles: [0.5], histograms: true }),
    ...modelMetricFamilies(models),
    ...pinnedMemoryFamilies(0),
    ...cpuFamilies(CPU),
  ];
  for (const family of families) metrics.register(family);
  registerLlmMetrics(metrics, { name: "m", version: 1 }, () => [], new RequestFigures());
  const types = metrics.render().matchAll(/^# TYPE (\S+) (\w+)$/gm);
  return new Map([...types].map(([, name = "", type = ""]) => [name, type]));
}

const exported = exportedFamilies();

function isExported(name: string): boolean {
  const family = name.replace(/_(bucket|sum|count)$/, "");
  return exported.has(name) || exported.get(family) === "histogram";
}

for (const { title, targets } of dashboard.panels) {
  test(`the dashboard's panel "${title}" asks for what is exported`, () => {
    assert.ok(targets.length > 0);
    for (const { expr } of targets) {
      const names = expr.match(METRIC_NAME) ?? [];
      assert.ok(names.length > 0, expr);
      for (const name of names) assert.ok(isExported(name), name);
    }
  });
}

test("the dashboard's variables come from metrics that are exported", () => {
  const names = dashboard.templating.list.flatMap(({ query }) => query.match(METRIC_NAME) ?? []);
  assert.equal(names.length, 2);
  for (const name of names) assert.ok(isExported(name), name);
});
