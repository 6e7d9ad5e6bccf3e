import assert from "node:assert/strict";
import { test } from "node:test";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../log.ts";
import { RecentTraces } from "./recent-traces.ts";
import { Tracer } from "./tracer.ts";

const NO_HEADERS = { header: () => undefined };

interface Clock {
  nowMs: number;
}

function fixture(): { readonly clock: Clock; readonly recent: RecentTraces; readonly tracer: Tracer } {
  const clock = { nowMs: 0 };
  const recent = new RecentTraces(() => clock.nowMs);
  const log = new ServerLog(DEFAULT_LOG_SETTINGS, { sink: { out: () => undefined, err: () => undefined } });
  const off = { mode: "triton", levels: [], rate: 1000, count: -1, logFrequency: 0, file: "" } as const;
  return { clock, recent, tracer: new Tracer({ start: { ...off, opentelemetry: [] }, log, env: {}, recent }) };
}

/** A request from beginning to end; false when it is not sampled. */
function run(tracer: Tracer): boolean {
  const trace = tracer.isOn ? tracer.start("m", NO_HEADERS) : undefined;
  trace?.begin("1", "", 1);
  trace?.end();
  trace?.end();
  return trace !== undefined;
}

test("requests are traced while somebody watches, whatever the settings say", () => {
  const { clock, recent, tracer } = fixture();
  assert.equal(run(tracer), false);
  recent.watch();
  assert.equal(run(tracer), true);
  assert.deepEqual(
    recent.list().map(({ nodes }) => nodes.map(({ modelName }) => modelName)),
    [["m"]],
  );
  clock.nowMs = 70_000;
  assert.equal(run(tracer), false);
  assert.equal(tracer.isOn, false, "the first request behind the lease switches tracing off");
});

test("`take()` allows 50 requests a second", () => {
  const { clock, recent } = fixture();
  recent.watch();
  const taken = (): number => Array.from({ length: 80 }, () => recent.take()).filter(Boolean).length;
  assert.equal(taken(), 50);
  clock.nowMs = 1000;
  assert.equal(taken(), 50);
});

test("`list()` has the newest 200 first, and `find()` finds one of them", () => {
  const { recent, clock, tracer } = fixture();
  recent.watch();
  for (let i = 0; i < 210; i += 1) {
    clock.nowMs = i * 30;
    assert.equal(run(tracer), true);
  }
  const ids = recent.list().map(({ id }) => id);
  assert.deepEqual([ids.length, ids[0], ids.at(-1)], [200, 210, 11]);
  assert.equal(recent.find(11)?.id, 11);
  assert.equal(recent.find(10), undefined);
});
