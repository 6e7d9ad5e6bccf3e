import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "yaml";
import { numbersOf, readAnalyzerFile } from "./analyzer-file.ts";
import { configOf, traitsOf } from "./model-variant.ts";
import { allVariants } from "./search-space.ts";
import { type ModelPlan, type SearchPlan, searchSpaceOf } from "./tune-plan.ts";

const FILE = `
model_repository: /models
checkpoint_directory: /tmp/c
run_config_search_max_concurrency: 8
profile_models:
  simple:
    model_config_parameters:
      max_batch_size: [4, 8]
      dynamic_batching:
        preferred_batch_size: [2, 4]
        max_queue_delay_microseconds: [100, 200, 300]
      instance_group:
        - kind: KIND_CPU
          count: [1, 2]
    parameters:
      concurrency: { start: 2, stop: 10, step: 4 }
    constraints:
      perf_latency_p99: { max: 50 }
  other: {}
objectives: { perf_throughput: 3, perf_latency_p99: 1 }
perf_analyzer_flags: { shape: "INPUT0:16" }
triton_server_flags: { log_verbose: 1 }
`;

const SEARCH: SearchPlan = {
  mode: "brute",
  isAutomatic: true,
  concurrency: { min: 1, max: 4 },
  modelBatchSize: { min: 1, max: 4 },
  instances: { min: 1, max: 2 },
  queueDelaysUs: [0, 100],
  parameters: [],
};

function planOf(part: Partial<ModelPlan>): ModelPlan {
  const goal = { objectives: [], constraints: [] };
  return {
    name: "m",
    goal,
    concurrency: undefined,
    batchSize: 1,
    settings: [],
    cpuOnly: false,
    shapes: [],
    inputData: [],
    ...part,
  };
}

test("readAnalyzerFile() reads what Model Analyzer's documentation shows", () => {
  const file = readAnalyzerFile(parse(FILE), "a.yaml");
  const [simple, other] = file.models;
  assert.deepEqual(simple?.concurrency, [2, 6, 10]);
  assert.deepEqual(simple?.goal.constraints, [{ metric: "perf_latency_p99", max: 50 }]);
  assert.equal(other?.settings.length, 0);
  assert.deepEqual(
    file.goal.objectives?.map(({ weight }) => weight),
    [3, 1],
  );
  assert.deepEqual(file.clientFlags.shapes, ["INPUT0:16"]);
  assert.deepEqual(file.serverFlags, ["--log-verbose=1"]);
  assert.deepEqual(file.ignored, ["checkpoint_directory"]);
  assert.equal(file.values.get("run_config_search_max_concurrency"), 8);
});

test("configOf() writes swept values where the configuration has them", () => {
  const [simple] = readAnalyzerFile(parse(FILE), "a.yaml").models;
  const base = { max_batch_size: 16, parameters: { k: { string_value: "v" } } };
  const space = searchSpaceOf(planOf({ settings: simple?.settings ?? [] }), SEARCH, traitsOf(base));
  const variants = allVariants(space);
  assert.equal(variants.length, 2 * 3 * 2);
  const last = JSON.parse(JSON.stringify(configOf(base, space, variants.at(-1) ?? [])));
  assert.deepEqual(last, {
    max_batch_size: 8,
    parameters: { k: { string_value: "v" } },
    dynamic_batching: { preferred_batch_size: [2, 4], max_queue_delay_microseconds: 300 },
    instance_group: [{ kind: "KIND_CPU", count: 2 }],
  });
});

test("configOf() drops preferred sizes above the largest batch, and keeps the groups of the model", () => {
  const base = {
    max_batch_size: 8,
    dynamic_batching: { preferred_batch_size: [2, 8] },
    instance_group: [{ kind: "KIND_CPU", count: 3 }],
  };
  const search = { ...SEARCH, parameters: [{ key: "threads", values: ["1", "2"] }] };
  const space = searchSpaceOf(planOf({}), search, traitsOf(base));
  assert.deepEqual(
    space.settings.map(({ name }) => name),
    ["instance_count", "max_batch_size", "max_queue_delay_microseconds", "threads"],
  );
  assert.deepEqual(JSON.parse(JSON.stringify(configOf(base, space, [1, 1, 1, 1]))), {
    max_batch_size: 2,
    dynamic_batching: { preferred_batch_size: [2], max_queue_delay_microseconds: 100 },
    instance_group: [{ kind: "KIND_CPU", count: 2 }],
    parameters: { threads: { string_value: "2" } },
  });
});

test("searchSpaceOf() has no batches where the model has none, and refuses ensembles", () => {
  const names = searchSpaceOf(planOf({}), SEARCH, traitsOf({})).settings.map(({ name }) => name);
  assert.deepEqual(names, ["instance_count"]);
  assert.throws(
    () => searchSpaceOf(planOf({}), SEARCH, traitsOf({ platform: "ensemble" })),
    /model 'm' is an ensemble/,
  );
});

test("numbersOf() refuses what is no whole number above 0", () => {
  assert.deepEqual(numbersOf("1,2", "c"), [1, 2]);
  assert.throws(() => numbersOf([0], "c"), /c: expected whole numbers above 0, got \[0\]/);
  assert.throws(() => numbersOf({ start: 3, stop: 1 }, "c"), /a range has start, stop and step/);
});
