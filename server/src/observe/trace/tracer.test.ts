import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../log.ts";
import { Tracer, type TraceStart } from "./tracer.ts";

const NO_HEADERS = { header: () => undefined };

interface Fixture {
  readonly tracer: Tracer;
  readonly folder: string;
  /** Names of the models of the traces in a file. */
  modelsIn(file: string): string[];
}

function fixture(t: TestContext, start: Partial<TraceStart> = {}): Fixture {
  const folder = mkdtempSync(join(tmpdir(), "nereid-tracer-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const log = new ServerLog(DEFAULT_LOG_SETTINGS, { sink: { out: () => undefined, err: () => undefined } });
  const common = { mode: "triton", levels: ["TIMESTAMPS"], rate: 1, count: -1, logFrequency: 0 } as const;
  const file = join(folder, "t");
  const tracer = new Tracer({ start: { ...common, file, opentelemetry: [], ...start }, log, env: {} });
  const modelsIn = (name: string): string[] => {
    const entries = JSON.parse(readFileSync(join(folder, name), "utf8")) as { model_name?: string }[];
    return entries.flatMap(({ model_name }) => (model_name === undefined ? [] : [model_name]));
  };
  return { tracer, folder, modelsIn };
}

/** A request from beginning to end; false when it is not sampled. */
function run(tracer: Tracer, model: string): boolean {
  const trace = tracer.start(model, NO_HEADERS);
  trace?.begin("1", "", performance.now());
  trace?.end();
  trace?.end();
  return trace !== undefined;
}

test("`start()` counts the requests of a model with its own settings apart", (t) => {
  const { tracer } = fixture(t, { rate: 2 });
  tracer.update("a", { rate: 3 });
  assert.deepEqual(
    ["a", "b", "a", "b", "a", "b"].map((model) => run(tracer, model)),
    [false, false, false, true, true, false],
  );
});

test("`update()` makes the counting start anew", (t) => {
  const { tracer } = fixture(t, { rate: 2 });
  assert.equal(run(tracer, "a"), false);
  tracer.update("", { logFrequency: 1 });
  assert.deepEqual([run(tracer, "a"), run(tracer, "a")], [false, true]);
});

test("`update()` of the server reaches what a model has left to it, and nothing else", (t) => {
  const { tracer } = fixture(t);
  tracer.update("a", { rate: 5 });
  tracer.update("", { rate: 7, logFrequency: 9 });
  assert.deepEqual([tracer.settings("a").rate, tracer.settings("a").logFrequency], [5, 9]);
  tracer.update("a", { rate: null });
  assert.equal(tracer.settings("a").rate, 7);
  tracer.update("", { rate: null, logFrequency: null });
  assert.deepEqual([tracer.settings("a").rate, tracer.settings("").logFrequency], [1, 0]);
});

test("`update()` changes nothing when a part of it is refused", (t) => {
  const { tracer } = fixture(t);
  tracer.update("a", { count: 5 });
  assert.throws(() => tracer.update("", { rate: 0 }), { code: "invalid_argument" });
  assert.deepEqual([tracer.settings("").rate, tracer.settings("a").rate], [1, 1]);
});

test("`isOn` follows the settings and the traces left", (t) => {
  const { tracer } = fixture(t, { levels: [] });
  assert.equal(tracer.isOn, false);
  tracer.update("a", { levels: ["TIMESTAMPS"], count: 1 });
  assert.equal(tracer.isOn, true);
  assert.equal(run(tracer, "b"), false);
  assert.equal(run(tracer, "a"), true);
  assert.equal(tracer.isOn, false);
});

test("`close()` writes the traces of all settings into one file", async (t) => {
  const { tracer, folder, modelsIn } = fixture(t);
  run(tracer, "a");
  tracer.update("b", { rate: 1 });
  run(tracer, "b");
  run(tracer, "c");
  await tracer.close();
  assert.deepEqual(readdirSync(folder), ["t"]);
  assert.deepEqual(modelsIn("t").sort(), ["a", "b", "c"]);
});

test("a trace that outlives its settings is written all the same", async (t) => {
  const { tracer, modelsIn } = fixture(t);
  const trace = tracer.start("a", NO_HEADERS);
  trace?.begin("1", "", performance.now());
  tracer.update("", { rate: 4 });
  trace?.end();
  trace?.end();
  await tracer.close();
  assert.deepEqual(modelsIn("t"), ["a"]);
});

test("a tree of traces is written once, when the last of its holders has let go", async (t) => {
  const { tracer, folder, modelsIn } = fixture(t, { logFrequency: 1 });
  const trace = tracer.start("a", NO_HEADERS);
  trace?.begin("1", "", 1);
  const child = trace?.child("inner");
  child?.begin("2", "", 2);
  trace?.end();
  trace?.end();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(readdirSync(folder), []);
  child?.end();
  trace?.child("late").begin("1", "", 3);
  await tracer.close();
  assert.deepEqual(readdirSync(folder), ["t.0"]);
  assert.deepEqual(modelsIn("t.0"), ["a", "inner"]);
});

test("a request that no model has taken leaves no head", async (t) => {
  const { tracer, modelsIn } = fixture(t);
  tracer.start("a", NO_HEADERS)?.end();
  run(tracer, "b");
  await tracer.close();
  assert.deepEqual(modelsIn("t"), ["b"]);
});
