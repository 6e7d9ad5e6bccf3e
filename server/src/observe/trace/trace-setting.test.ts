import assert from "node:assert/strict";
import { test } from "node:test";
import type { TraceSettings } from "../../core/request-trace.ts";
import { changedOwn, expectUsable, hasOwn, type OwnSettings, resolveSettings, TraceSampler } from "./trace-setting.ts";

const START: TraceSettings = {
  mode: "triton",
  levels: ["TIMESTAMPS"],
  rate: 10,
  count: -1,
  logFrequency: 0,
  file: "t.json",
  modeSettings: [],
};

for (const [title, own, changes, rate, isOwn] of [
  ["a change is laid over what lies behind", {}, { rate: 3 }, 3, true],
  ["what a change leaves out stays", { rate: 4 }, { count: 1 }, 4, true],
  ["null goes back to what lies behind", { rate: 4 }, { rate: null }, 10, false],
  ["null leaves the other fields alone", { rate: 4, count: 2 }, { count: null }, 4, true],
  ["nothing set is as what lies behind", {}, {}, 10, false],
] as const) {
  test(`\`resolveSettings()\`: ${title}`, () => {
    const next: OwnSettings = changedOwn(own, changes);
    assert.equal(resolveSettings(START, next).rate, rate);
    assert.equal(hasOwn(next), isOwn);
  });
}

for (const [changes, reason] of [
  [{ rate: 0 }, "sample rate must be non-zero"],
  [{ file: "" }, "trace file name is not given"],
] as const) {
  test(`\`expectUsable()\` refuses ${JSON.stringify(changes)} unless tracing is off`, () => {
    assert.throws(() => expectUsable({ ...START, ...changes }), {
      code: "invalid_argument",
      message: `Attempting to set invalid trace setting :${reason}`,
    });
    expectUsable({ ...START, ...changes, levels: [] });
    expectUsable({ ...START, ...changes, mode: "opentelemetry" });
  });
}

/** The numbers of the requests that are sampled. */
function sampled(settings: Partial<TraceSettings>, numRequests: number, forced: readonly number[] = []): number[] {
  const sampler = new TraceSampler({ ...START, ...settings });
  const numbers = Array.from({ length: numRequests }, (_, i) => i + 1);
  return numbers.filter((number) => sampler.sample(forced.includes(number)));
}

test("`sample()` takes the last of every `rate` requests", () => {
  assert.deepEqual(sampled({ rate: 3 }, 10), [3, 6, 9]);
  assert.deepEqual(sampled({ rate: 1 }, 3), [1, 2, 3]);
});

test("`sample()` ends with the count", () => {
  assert.deepEqual(sampled({ rate: 2, count: 2 }, 10), [2, 4]);
  assert.deepEqual(sampled({ rate: 1, count: 0 }, 10), []);
});

test("`sample()` takes what a caller traces, and does not count it as one of `rate`", () => {
  assert.deepEqual(sampled({ mode: "opentelemetry", rate: 0 }, 5, [2, 4]), [2, 4]);
  assert.deepEqual(sampled({ mode: "opentelemetry", rate: 2 }, 4, [1]), [1, 3]);
  assert.deepEqual(sampled({ mode: "opentelemetry", rate: 0, count: 1 }, 5, [2, 4]), [2]);
});

test("`sample()` takes nothing when the settings trace nothing", () => {
  assert.deepEqual(sampled({ levels: [] }, 30), []);
  assert.deepEqual(sampled({ file: "" }, 30), []);
});

test("`settings` shows how many traces are left", () => {
  const sampler = new TraceSampler({ ...START, rate: 1, count: 2 });
  sampler.sample(false);
  assert.equal(sampler.settings.count, 1);
  assert.equal(sampler.isUsedUp, false);
  sampler.sample(false);
  assert.deepEqual([sampler.settings.count, sampler.isUsedUp, sampler.isOn], [0, true, false]);
});
