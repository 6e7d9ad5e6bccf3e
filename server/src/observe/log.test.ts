import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { DEFAULT_LOG_SETTINGS, escapeMessage, ServerLog } from "./log.ts";

function capture(settings = DEFAULT_LOG_SETTINGS): { log: ServerLog; out: string[]; err: string[] } {
  const out: string[] = [];
  const err: string[] = [];
  const sink = { out: (line: string) => out.push(line), err: (line: string) => err.push(line) };
  return { log: new ServerLog(settings, { sink }), out, err };
}

test("info() writes Triton's default line to stdout", () => {
  const { log, out, err } = capture();
  log.info("model_lifecycle", "loading: m:1");
  assert.match(out[0] ?? "", /^I\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ model_lifecycle\.cc:1\] "loading: m:1"\n$/);
  assert.deepEqual(err, []);
});

test("warn() and error() write to stderr", () => {
  const { log, out, err } = capture();
  log.warn("a", "x");
  log.error("a", "y");
  assert.deepEqual(
    err.map((line) => line[0]),
    ["W", "E"],
  );
  assert.deepEqual(out, []);
});

test("update() switches levels and format at run time but never the file", () => {
  const { log, out } = capture();
  assert.equal(log.update({ log_format: "ISO8601", log_verbose_level: 2, log_file: "/etc/passwd" }).log_file, "");
  log.verbose(2, "a", "x");
  log.verbose(3, "a", "hidden");
  assert.equal(out.length, 1);
  assert.match(out[0] ?? "", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ I \d+ a\.cc:1\] "x"\n$/);
  log.update({ log_info: false });
  log.info("a", "hidden");
  assert.equal(out.length, 1);
});

test("a location that names its own line keeps it, as a model in Python does", () => {
  const { log, out } = capture();
  log.info("model.py:73", "x");
  log.info("v2.1", "y");
  assert.match(out[0] ?? "", / \d+ model\.py:73\] "x"\n$/);
  assert.match(out[1] ?? "", / \d+ v2\.1\.cc:1\] "y"\n$/);
});

test("verbose() writes a message only when its level is on", () => {
  const { log, out } = capture();
  let numWritten = 0;
  const message = (): string => {
    numWritten += 1;
    return `message ${numWritten}`;
  };
  log.verbose(1, "a", message);
  assert.equal(numWritten, 0);
  log.update({ log_verbose_level: 1 });
  log.verbose(1, "a", message);
  log.verbose(2, "a", message);
  assert.deepEqual([numWritten, out.length], [1, 1]);
  assert.match(out[0] ?? "", /^I.* a\.cc:1\] "message 1"\n$/);
});

test("escapeMessage() keeps one record on one line whatever a client sends", () => {
  for (const hostile of ["a\nE0101 forged", "a\r\n", "\u001b[31m", "\u2028", "\u2029", "\u009b31m", "\u007f"]) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
    assert.doesNotMatch(escapeMessage(hostile), /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/);
  }
});

test("ServerLog writes everything to the log file when one is set", () => {
  const folder = mkdtempSync(join(tmpdir(), "nereid-log-"));
  try {
    const file = join(folder, "server.log");
    using log = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_file: file });
    log.info("a", "one");
    log.error("b", "two");
    assert.equal(readFileSync(file, "utf8").split("\n").length, 3);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("ServerLog writes one JSON object a line when the format is json", () => {
  const { log, out, err } = capture({ ...DEFAULT_LOG_SETTINGS, log_format: "json", log_verbose_level: 1 });
  log.info("a", 'say "x"\n{"level":"forged"}');
  log.verbose(1, "b", "y");
  log.table("c", "+-+\n| |");
  log.warn("d", "\u2028");
  log.error("e", "z");
  const records = [...out, ...err].map((line) => {
    assert.match(line, /^[^\n\u2028]+\n$/);
    const { time, pid, ...rest } = JSON.parse(line) as Record<string, unknown>;
    assert.match(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.equal(pid, process.pid);
    return rest;
  });
  assert.deepEqual(records, [
    { level: "info", location: "a", message: 'say "x"\n{"level":"forged"}' },
    { level: "verbose", location: "b", message: "y" },
    { level: "info", location: "c", message: "+-+\n| |" },
    { level: "warning", location: "d", message: "\u2028" },
    { level: "error", location: "e", message: "z" },
  ]);
});

test("update() turns JSON lines on and off at run time", () => {
  const { log, out } = capture();
  log.update({ log_format: "json" });
  log.info("a", "x");
  log.update({ log_format: "default" });
  log.info("a", "x");
  assert.deepEqual(
    out.map((line) => line[0]),
    ["{", "I"],
  );
});
