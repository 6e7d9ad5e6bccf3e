import assert from "node:assert/strict";
import { test } from "node:test";
import { MetricRegistry } from "../../observe/metrics.ts";
import { CustomMetrics } from "./custom-metrics.ts";
import type { FromThread } from "./messages.ts";
import { SharedMetrics } from "./worker/shared-metrics.ts";

/** The metrics of one thread, joined to the model's as messages would. */
function thread(metrics: CustomMetrics, owner: object): SharedMetrics {
  return new SharedMetrics({
    post(message: FromThread) {
      assert.equal(message.type, "series");
      if (message.type === "series") metrics.add(owner, message);
    },
  });
}

test("counts of threads add up and outlive them; gauges go with their thread", () => {
  const registry = new MetricRegistry();
  using metrics = new CustomMetrics(registry, "m", 2);
  const [one, two] = [{}, {}];
  for (const owner of [one, two]) {
    const own = thread(metrics, owner);
    own.counter("seen_total", "Seen").increment(2, { kind: "x" });
    own.gauge("size", "Size").set(5);
  }
  assert.match(registry.render(), /^seen_total\{model="m",version="2",kind="x"\} 4$/m);
  assert.match(registry.render(), /^size\{model="m",version="2"\} 10$/m);
  metrics.drop(one);
  thread(metrics, one).counter("seen_total", "Seen").increment(1, { kind: "x" });
  assert.match(registry.render(), /^seen_total\{.*\} 5$/m);
  assert.match(registry.render(), /^size\{.*\} 5$/m);
  metrics.drop(one);
  metrics.drop(two);
  assert.match(registry.render(), /^seen_total\{.*\} 5$/m);
  assert.doesNotMatch(registry.render(), /^size\{/m);
});

test("a histogram shows cumulative buckets, sum and count", () => {
  const registry = new MetricRegistry();
  using metrics = new CustomMetrics(registry, "m", 1);
  const histogram = thread(metrics, {}).histogram("length", "Length", [1, 10]);
  for (const value of [1, 2, 3, 50]) histogram.observe(value);
  const shown = registry
    .render()
    .split("\n")
    .filter((line) => line.startsWith("length"));
  assert.deepEqual(
    shown.map((line) => line.replace('model="m",version="1"', "")),
    [
      'length_bucket{,le="1"} 1',
      'length_bucket{,le="10"} 3',
      'length_bucket{,le="+Inf"} 4',
      "length_sum{} 56",
      "length_count{} 4",
    ],
  );
});

test("metrics go with their model; wrong names, labels and increments are refused", () => {
  const registry = new MetricRegistry();
  const metrics = new CustomMetrics(registry, "m", 1);
  const own = thread(metrics, {});
  own.counter("a_total", "A").increment();
  assert.throws(() => own.counter("a b", ""), /'a b' is no name of a metric/);
  assert.throws(() => own.counter("a_total", "A").increment(-1), /only grows/);
  assert.throws(() => own.gauge("g", "G").set(1, { model: "x" }), /label 'model' of metric g is set by the server/);
  assert.throws(() => own.histogram("h", "H", [2, 1]), /must be ascending/);
  metrics[Symbol.dispose]();
  assert.equal(registry.render(), "");
});
