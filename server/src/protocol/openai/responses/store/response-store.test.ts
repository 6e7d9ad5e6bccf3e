/** Owners, ages and sizes of kept responses. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_STORED_RESPONSE_BYTES, MAX_STORED_RESPONSES } from "../../../../core/limits.ts";
import type { BackgroundRun } from "./background-run.ts";
import { finalObject } from "./final-object.ts";
import { ResponseStore } from "./response-store.ts";
import { StoredResponse } from "./stored-response.ts";

const HOUR_MS = 3_600_000;

function kept(id: string, owner = "", text = "answer"): StoredResponse {
  const input = [{ id: `in_${id}`, type: "message", role: "user", content: "x" }];
  const output = [{ id: `out_${id}`, type: "message", content: text }];
  return new StoredResponse({ id, owner, input, previousId: undefined }, finalObject({ id, output }));
}

/** A run as the store sees it. */
function running(id: string, state: { isOver: boolean; numBytes: number; isCancelled: boolean }): StoredResponse {
  const run = {
    get isOver() {
      return state.isOver;
    },
    get numBytes() {
      return state.numBytes;
    },
    itemIds: [],
    object: () => ({ id, output: [] }),
    cancel() {
      state.isOver = true;
      state.isCancelled = true;
    },
  };
  return new StoredResponse({ id, owner: "", input: [], previousId: undefined }, run as unknown as BackgroundRun);
}

test("find() gives a response to its own key alone", () => {
  const store = new ResponseStore();
  store.add(kept("a", "one"));
  assert.equal(store.find("one", "a")?.object().id, "a");
  assert.equal(store.find("two", "a"), undefined);
  assert.equal(store.find("one", "__proto__"), undefined);
  assert.equal(store.delete("two", "a"), false);
  assert.equal(store.delete("one", "a"), true);
  assert.deepEqual([store.numResponses, store.numBytes], [0, 0]);
});

test("findItem() finds input and output items until their response goes", () => {
  const store = new ResponseStore();
  store.add(kept("a", "one"));
  assert.equal(store.findItem("one", "in_a")?.content, "x");
  assert.equal(store.findItem("one", "out_a")?.content, "answer");
  assert.equal(store.findItem("two", "out_a"), undefined);
  store.delete("one", "a");
  assert.equal(store.findItem("one", "out_a"), undefined);
});

test("find() knows no response that is older than a day, and the next add() drops it", () => {
  let nowMs = 0;
  const store = new ResponseStore(() => nowMs);
  store.add(kept("a"));
  nowMs = 23 * HOUR_MS;
  assert.equal(store.find("", "a")?.id, "a");
  nowMs = 25 * HOUR_MS;
  assert.equal(store.find("", "a"), undefined);
  store.add(kept("b"));
  assert.equal(store.numResponses, 1);
});

test("add() makes room with the responses of the key that has the most, the unused ones first", () => {
  const store = new ResponseStore();
  store.add(kept("small", "one"));
  for (let i = 0; i < MAX_STORED_RESPONSES - 1; i++) store.add(kept(`r${i}`, "two"));
  store.find("two", "r0");
  store.add(kept("last", "one"));
  assert.equal(store.numResponses, MAX_STORED_RESPONSES);
  assert.equal(store.find("two", "r1"), undefined);
  for (const [owner, id] of [
    ["one", "small"],
    ["one", "last"],
    ["two", "r0"],
  ] as const) {
    assert.equal(store.find(owner, id)?.id, id);
  }
});

test("update() drops others for a run that grows, and says when there is no room left", () => {
  const store = new ResponseStore();
  const state = { isOver: false, numBytes: 0, isCancelled: false };
  const run = running("run", state);
  store.add(run);
  store.add(kept("other"));
  state.numBytes = MAX_STORED_RESPONSE_BYTES - 10;
  assert.equal(store.update(run), true);
  assert.equal(store.find("", "other"), undefined);
  state.numBytes = MAX_STORED_RESPONSE_BYTES + 1;
  assert.equal(store.update(run), false);
  assert.equal(store.find("", "run")?.id, "run");
  assert.equal(store.numRunning, 1);
});

test("delete() cancels a run", () => {
  const store = new ResponseStore();
  const state = { isOver: false, numBytes: 5, isCancelled: false };
  store.add(running("run", state));
  store.delete("", "run");
  assert.deepEqual([state.isCancelled, store.numRunning, store.numBytes], [true, 0, 0]);
});
