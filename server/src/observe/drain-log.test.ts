import assert from "node:assert/strict";
import { test } from "node:test";
import { connectionLines, inferenceLines, startCountdown, unloadLines } from "./drain-log.ts";
import type { Logger } from "./log.ts";

const OPEN = new Map([
  ["http", { connectionCount: 2, callCount: 1 }],
  ["grpc", { connectionCount: 3, callCount: 4 }],
]);

test("connectionLines() names the front ends that somebody is connected to", () => {
  assert.deepEqual(connectionLines(30, OPEN), [
    "Timeout 30: Found 2 HTTP service connections",
    "Timeout 30: Found 3 gRPC service connections and inference handlers",
  ]);
  assert.deepEqual(connectionLines(30, new Map([["http", { connectionCount: 0, callCount: 0 }]])), []);
});

test("inferenceLines() counts the model versions that are busy, and names each", () => {
  assert.deepEqual(inferenceLines(29, []), ["Timeout 29: Found 0 model versions that have in-flight inferences"]);
  assert.deepEqual(inferenceLines(28, [{ name: "m", version: "3", inFlight: 7 }]), [
    "Timeout 28: Found 1 model versions that have in-flight inferences",
    "Model 'm' (version 3) has 7 in-flight inferences",
  ]);
});

test("unloadLines() counts live models and what is still asked of any front end", () => {
  assert.deepEqual(unloadLines(28, 4, OPEN), [
    "Timeout 28: Found 4 live models and 5 in-flight non-inference requests",
  ]);
});

test("startCountdown() speaks at once and every second until it is disposed of", (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const lines: string[] = [];
  const add = (_location: string, message: string): void => void lines.push(message);
  const log: Logger = { info: add, warn: add, error: add, verbose: () => undefined, table: add };
  const countdown = startCountdown(log, performance.now() + 9500, (left) => [`${left} s`]);
  assert.deepEqual(lines, ["10 s"]);
  context.mock.timers.tick(2000);
  assert.equal(lines.length, 3);
  countdown[Symbol.dispose]();
  context.mock.timers.tick(2000);
  assert.equal(lines.length, 3);
});
