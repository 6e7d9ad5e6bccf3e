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
