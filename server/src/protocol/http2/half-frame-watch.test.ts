import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { HalfFrameWatch, MAX_HALF_MS } from "./half-frame-watch.ts";

test("HalfFrameWatch notices a frame that does not end, and none that ends in time", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const progress = { isHalf: true, numFrames: 3 };
  let numStuck = 0;
  const watch = new HalfFrameWatch(progress, () => {
    numStuck += 1;
  });
  watch.look();
  mock.timers.tick(MAX_HALF_MS - 1);
  progress.numFrames = 4; // the one ended, and another began
  watch.look();
  for (const ms of [1, MAX_HALF_MS - 1]) mock.timers.tick(ms);
  assert.equal(numStuck, 0);
  mock.timers.tick(1);
  assert.equal(numStuck, 1);
  progress.isHalf = false;
  watch.look();
  mock.timers.tick(2 * MAX_HALF_MS);
  assert.equal(numStuck, 1);
  mock.timers.reset();
});
