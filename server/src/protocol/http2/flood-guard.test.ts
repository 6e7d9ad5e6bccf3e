import assert from "node:assert/strict";
import { test } from "node:test";
import { FloodGuard } from "./flood-guard.ts";
import { MAX_CONTROL_PER_SECOND, MAX_EMPTY_FRAMES, MAX_RESET_BURST, MAX_RESETS_PER_SECOND } from "./limits.ts";

test("a client may reset a burst of streams, then as many as a second gives", () => {
  const guard = new FloodGuard();
  for (let i = 0; i < MAX_RESET_BURST; i++) assert.equal(guard.reset(1000), false);
  assert.equal(guard.reset(1000), true);
  for (let i = 0; i < MAX_RESETS_PER_SECOND - 1; i++) assert.equal(guard.reset(2000), false);
  assert.equal(guard.reset(2000), true);
});

test("empty frames are too many in a row, and content begins anew", () => {
  const guard = new FloodGuard();
  for (let i = 0; i < MAX_EMPTY_FRAMES; i++) assert.equal(guard.empty(), false);
  guard.content();
  for (let i = 0; i < MAX_EMPTY_FRAMES; i++) assert.equal(guard.empty(), false);
  assert.equal(guard.empty(), true);
});

test("frames that must be answered are counted by the second", () => {
  const guard = new FloodGuard();
  for (let i = 0; i < MAX_CONTROL_PER_SECOND; i++) assert.equal(guard.control(1000), false);
  assert.equal(guard.control(1999), true);
  assert.equal(guard.control(2000), false);
});
