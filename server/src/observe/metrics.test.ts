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

test("page() gives the page of render() and lets others run meanwhile, but not within a histogram", async () => {
  const registry = new MetricRegistry();
  let turns = 0;
  let isOver = false;
  const slow = (type: "counter" | "histogram", turnsOfPage: Set<number>) => ({
    name: `of_${type}`,
    help: "h",
    type,
    *collect() {
      for (let value = 0; value < 20; value += 1) {
        const endMs = performance.now() + 1;
        while (performance.now() < endMs) turnsOfPage.add(turns);
        yield { labels: { value: `${value}` }, value };
      }
    },
  });
  const [counterTurns, histogramTurns] = [new Set<number>(), new Set<number>()];
  registry.register(slow("counter", counterTurns));
  registry.register(slow("histogram", histogramTurns));
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const page = await registry.page();
  isOver = true;
  const [ofCounter, ofHistogram] = [counterTurns.size, histogramTurns.size];
  assert.ok(ofCounter >= 5, `others had ${ofCounter} turns`);
  assert.equal(ofHistogram, 1);
  assert.equal(page, registry.render());
});
