/** Dashboards and alert rules ask for metrics, and for labels of them, that the metrics page of a real server has. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { GpuWatch } from "../../server/src/observe/gpu-metrics.ts";
import { MetricRegistry } from "../../server/src/observe/metrics.ts";
import {
  createModelRepository,
  EXAMPLES,
  type ModelRepository,
  SIMPLE_AND_PIPELINE,
} from "../support/model-repository.ts";
import { type Family, parseMetricsPage } from "../support/prometheus-text.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { ALERTS, DASHBOARDS, type Dashboard, expressionsOf, rulesOf } from "./expressions.ts";

const KEY = "sk-dashboard";
const FLAGS = [
  ...SIMPLE_AND_PIPELINE,
  "--load-model=cached",
  "--cache-config=local,size=1048576",
  "--metrics-config=histogram_latencies=true",
  "--metrics-config=open_work=true",
  "--api-keys-for=openai,v2",
];
/** The scraper adds these; `up` is its own metric. */
const OF_PROMETHEUS = new Set(["instance", "job", "le"]);
/** GPU families come from `GpuWatch`, as on a machine that has one. */
const GPU = {
  uuid: "GPU-1",
  name: "GPU of the test",
  read: async () => ({
    utilization: 0.5,
    totalBytes: 2,
    usedBytes: 1,
    powerWatts: 3,
    powerLimitWatts: 4,
    energyJoules: 5,
  }),
};

/** Series of the response cache exist for models that use it. */
const CACHED = `backend: "identity" response_cache { enable: true }
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]`;

let folder = "";
let cached: ModelRepository;
let server: ServerProcess;
let page: ReadonlyMap<string, Family>;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "nereid-dashboard-"));
  const keys = join(folder, "keys.json");
  const sha256 = createHash("sha256").update(KEY).digest("hex");
  writeFileSync(keys, JSON.stringify({ keys: [{ name: "team", sha256 }] }));
  cached = await createModelRepository({ files: { "cached/config.pbtxt": CACHED } });
  server = await startServerProcess({
    repositories: [EXAMPLES, cached.path],
    flags: [...FLAGS, `--api-key-file=${keys}`],
  });
  const headers = { authorization: `Bearer ${KEY}` };
  const body = JSON.stringify({ text_input: "Once", max_tokens: 3 });
  const reply = await fetch(`${server.baseUrl}/v2/models/ensemble/generate`, { method: "POST", headers, body });
  assert.equal(reply.status, 200, await reply.text());
  page = parseMetricsPage(
    (await (await fetch(`http://127.0.0.1:${server.metrics}/metrics`)).text()) + (await gpuPage()),
  );
});
after(async () => {
  await server.stop();
  await cached[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

async function gpuPage(): Promise<string> {
  using watch = new GpuWatch([GPU], 60_000);
  await watch.read();
  const metrics = new MetricRegistry();
  for (const family of watch.families) metrics.register(family);
  return metrics.render();
}

/** Names and labels of one selector that the page lacks. */
function unknownOf(name: string, matchers: string): string[] {
  const labels = labelsOf(name);
  const matched = [...matchers.matchAll(/(\w+) ?(?:=~|!~|!=|=)/g)].map(([, label = ""]) => label);
  return [
    ...(labels.size === 0 ? [name] : []),
    ...matched.filter((label) => !labels.has(label) && !OF_PROMETHEUS.has(label)).map((label) => `${name}{${label}}`),
  ];
}

/** Empty when the page has no series of that name. */
function labelsOf(name: string): ReadonlySet<string> {
  const family = page.get(name) ?? page.get(name.replace(/_(bucket|sum|count)$/, ""));
  return new Set(family?.series.flatMap(({ labels }) => ["", ...Object.keys(labels)]));
}

/** Names and labels of an expression that the page lacks. */
function unknownIn(expression: string): string[] {
  const selectors = [...expression.matchAll(/\b((?:nv_|nereid_|vllm:)\w+)(?:\{([^}]*)\})?/g)];
  if (selectors.length === 0) return /^up\{/.test(expression) ? [] : ["no metric"];
  const known = new Set(selectors.flatMap(([, name = ""]) => [...labelsOf(name)]));
  const groups = [...expression.matchAll(/\b(?:by|on|label_values) ?\(([^()]*)\)/g)];
  const grouped = groups.flatMap(([, list = ""]) => list.split(",").map((label) => label.trim()));
  return [
    ...selectors.flatMap(([, name = "", matchers = ""]) => unknownOf(name, matchers)),
    ...grouped.filter((label) => !page.has(label) && !known.has(label) && !OF_PROMETHEUS.has(label)),
  ];
}

const dashboards = readdirSync(DASHBOARDS).map(
  (name) => [name, JSON.parse(readFileSync(join(DASHBOARDS, name), "utf8")) as Dashboard] as const,
);

test("there are dashboards of serving, language models, GPUs and tenants", () => {
  assert.deepEqual(
    dashboards.map(([name]) => name),
    ["gpus.json", "language-models.json", "serving.json", "tenants.json"],
  );
  assert.equal(new Set(dashboards.map(([, { uid }]) => uid)).size, dashboards.length);
});

for (const [name, dashboard] of dashboards) {
  test(`panels and variables of ${name} ask for metrics and labels that a server exports`, () => {
    const expressions = expressionsOf(dashboard);
    assert.ok(expressions.length > dashboard.panels.length);
    for (const expression of expressions) assert.deepEqual(unknownIn(expression), [], expression);
  });
}

test("the alert rules ask for metrics and labels that a server exports", () => {
  const rules = rulesOf(readFileSync(ALERTS, "utf8"));
  assert.ok(rules.length >= 11);
  for (const { alert, expression } of rules) assert.deepEqual(unknownIn(expression), [], alert);
});

test("a metric or a label that no server exports is found", () => {
  assert.deepEqual(unknownIn('sum by (tenant) (rate(nv_inference_count{node="x"}[5m])) / nv_none'), [
    "nv_inference_count{node}",
    "nv_none",
    "tenant",
  ]);
  assert.deepEqual(unknownIn("1 + 1"), ["no metric"]);
});
