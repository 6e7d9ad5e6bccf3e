import assert from "node:assert/strict";
import { test } from "node:test";
import { Cancellation } from "./cancellation.ts";

test("`cancel()` aborts a signal that was asked for before", () => {
  const cancellation = new Cancellation();
  const { signal } = cancellation;
  assert.equal(signal.aborted, false);
  cancellation.cancel();
  assert.equal(signal.aborted, true);
  assert.equal(cancellation.isCancelled, true);
});

test("`signal` is aborted when it is asked for after the end, and always the same", () => {
  const cancellation = new Cancellation();
  cancellation.cancel();
  assert.equal(cancellation.signal.aborted, true);
  assert.equal(cancellation.signal, cancellation.signal);
});

test("`cancel()` cancels those that follow, before and after they do", () => {
  const [first, second, third] = [new Cancellation(), new Cancellation(), new Cancellation()];
  first.lead(second);
  const { signal } = second;
  second.lead(third);
  assert.equal(signal.aborted, false);
  first.cancel();
  assert.deepEqual([signal.aborted, third.isCancelled], [true, true]);
  const late = new Cancellation();
  first.lead(late);
  assert.equal(late.isCancelled, true);
});

test("`cancel()` of one that follows leaves its leader", () => {
  const [leader, follower] = [new Cancellation(), new Cancellation()];
  leader.lead(follower);
  follower.cancel();
  assert.equal(leader.isCancelled, false);
});
