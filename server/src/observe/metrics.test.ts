import assert from "node:assert/strict";
import { test } from "node:test";
import { MetricRegistry } from "./metrics.ts";

test("render() prints head, labels and special values", () => {
  const registry = new MetricRegistry();
  registry.register({
    name: "a_total",
    help: "Two\nlines",
    type: "counter",
    collect: () => [
      { labels: { model: 'x"y\\z\n' }, value: 3 },
      { suffix: "_sum", labels: {}, value: Number.NaN },
      { labels: { le: "+Inf" }, value: Number.POSITIVE_INFINITY },
    ],
  });
  assert.equal(
    registry.render(),
    '# HELP a_total Two\\nlines\n# TYPE a_total counter\na_total{model="x\\"y\\\\z\\n"} 3\na_total_sum Nan\na_total{le="+Inf"} +Inf\n',
  );
});

test("register() joins sources of one family and forgets it when the last has gone", () => {
  const registry = new MetricRegistry();
  const source = (value: number) => ({
    name: "g",
    help: "h",
    type: "gauge" as const,
    collect: () => [{ labels: {}, value }],
  });
  const one = registry.register(source(1));
  const two = registry.register(source(2));
  assert.equal(registry.render().match(/# TYPE/g)?.length, 1);
  one[Symbol.dispose]();
  assert.match(registry.render(), /^g 2$/m);
  two[Symbol.dispose]();
  assert.equal(registry.render(), "");
});
