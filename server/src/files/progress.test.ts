import assert from "node:assert/strict";
import { test } from "node:test";
import { type ProgressMode, progressMode, Reporter } from "./progress.ts";
import { formatBytes, formatDuration, progressLine, RateMeter } from "./progress-text.ts";

const BYTES: readonly [number, string][] = [
  [0, "0 B"],
  [1023, "1023 B"],
  [1024, "1.0 KiB"],
  [1536, "1.5 KiB"],
  [150 * 1024, "150 KiB"],
  [2 ** 40, "1.0 TiB"],
  [2 ** 60, "1024 PiB"],
];
const DURATIONS: readonly [number, string][] = [
  [0, "0s"],
  [59.4, "59s"],
  [61, "1m01s"],
  [3599.4, "59m59s"],
  [3600, "1h00m"],
  [90_061, "25h01m"],
  [Number.POSITIVE_INFINITY, "?"],
  [-1, "0s"],
];

test("formatBytes() and formatDuration() write what people read", () => {
  assert.deepEqual(
    BYTES.map(([bytes]) => formatBytes(bytes)),
    BYTES.map(([, text]) => text),
  );
  assert.deepEqual(
    DURATIONS.map(([seconds]) => formatDuration(seconds)),
    DURATIONS.map(([, text]) => text),
  );
});

test("RateMeter tells the speed of the last seconds and forgets what was before", () => {
  const meter = new RateMeter(0, 0, 1000);
  assert.equal(meter.rate(), undefined);
  for (let atMs = 200; atMs <= 1000; atMs += 200) meter.sample(atMs, atMs); // 1000 a second
  assert.equal(meter.rate(), 1000);
  for (let atMs = 1200; atMs <= 4000; atMs += 200) meter.sample(atMs, 1000); // a standstill
  assert.equal(meter.rate(), 0);
});

test("progressLine() shows share, amounts, speed and time left, cut to the width", () => {
  const snapshot = { task: "get", unit: "bytes", done: 512, total: 1024, rate: 64, etaSeconds: 8, item: "model.bin" };
  const line = "get [############------------]  50.0% 512 B/1.0 KiB 64 B/s ETA 8s model.bin";
  assert.equal(progressLine(snapshot, 200), line);
  assert.equal(progressLine(snapshot, 20), line.slice(0, 20));
  const open = { ...snapshot, unit: "tensors", total: undefined, etaSeconds: undefined, rate: 2, item: undefined };
  assert.equal(progressLine(open, 200), "get 512 tensors 2.0/s");
  assert.match(progressLine({ ...snapshot, done: 0, total: 0 }, 200), /100\.0%/);
});

function recorded(
  mode: ProgressMode,
  columns = 80,
): {
  reporter: Reporter;
  out: string[];
  err: string[];
  advance: (ms: number) => void;
} {
  const out: string[] = [];
  const err: string[] = [];
  let nowMs = 0;
  const reporter = new Reporter({
    mode,
    command: "try",
    stdout: { write: (text) => out.push(text) },
    stderr: { write: (text) => err.push(text), columns },
    nowMs: () => nowMs,
  });
  return { reporter, out, err, advance: (ms) => (nowMs += ms) };
}

function work({ reporter, advance }: ReturnType<typeof recorded>): void {
  const task = reporter.startTask({ task: "copy", unit: "bytes", total: 4096 });
  task.skip(2048);
  advance(1000);
  task.add(1024, "a.bin");
  advance(1000);
  task.add(1024);
  task.end();
  task.end();
  reporter.warn("careful");
  reporter.result("all done", { files: 2 });
}

test("Reporter redraws one line on a terminal and ends it once", () => {
  const run = recorded("terminal");
  work(run);
  assert.equal(run.err.join("").split("\n").length, 3); // the bar's line, the warning's, nothing
  assert.match(run.err.join(""), /\[2Kcopy .* 75\.0% 3\.0 KiB\/4\.0 KiB 1\.0 KiB\/s ETA 1s a\.bin/);
  assert.deepEqual(run.out, ["all done\n"]);
});

test("Reporter writes a line of usual width to a terminal that says it has no columns", () => {
  const run = recorded("terminal", 0);
  work(run);
  assert.match(run.err.join(""), /try|%/);
  assert.equal(run.err.join(""), widest("terminal"));
});

function widest(mode: ProgressMode): string {
  const run = recorded(mode, 100);
  work(run);
  return run.err.join("");
}

test("Reporter writes lines now and then where there is no terminal, and nothing but warnings and results when quiet", () => {
  const lines = recorded("lines");
  work(lines);
  assert.equal(lines.err.length, 2);
  const quiet = recorded("quiet");
  work(quiet);
  assert.deepEqual([quiet.err, quiet.out], [["Warning: careful\n"], ["all done\n"]]);
});

test("Reporter writes JSON lines to stdout for machines", () => {
  const run = recorded("json");
  work(run);
  run.reporter.error("no", { fix: "yes" });
  const events = run.out.map((line): Record<string, unknown> => JSON.parse(line));
  assert.deepEqual(run.err, []);
  assert.deepEqual(
    events.map(({ event }) => event),
    ["progress", "progress", "progress", "warning", "done", "error"],
  );
  assert.deepEqual(events[0], {
    event: "progress",
    command: "try",
    task: "copy",
    unit: "bytes",
    done: 3072,
    total: 4096,
    rate: 1024,
    eta_seconds: 1,
    item: "a.bin",
  });
  assert.deepEqual(events.at(-1), { event: "error", command: "try", message: "no", fix: "yes" });
});

test("progressMode() follows the flags, then whether somebody looks", () => {
  const terminal = { write: () => true, isTTY: true };
  assert.equal(progressMode({ quiet: true, json: true }, terminal), "json");
  assert.equal(progressMode({ quiet: true, json: false }, terminal), "quiet");
  assert.equal(progressMode({ quiet: false, json: false }, terminal), "terminal");
  assert.equal(progressMode({ quiet: false, json: false }, { write: () => true }), "lines");
});
