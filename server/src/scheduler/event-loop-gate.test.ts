import assert from "node:assert/strict";
import { test } from "node:test";
import type { Clock } from "./clock.ts";
import { EventLoopGate } from "./event-loop-gate.ts";

/** A clock whose turns end when the test says so. */
function handClock(): Clock & { endTurn(): void } {
  const due: (() => void)[] = [];
  return {
    nowMs: () => 0,
    alarm: () => ({ set: () => undefined, clear: () => undefined }),
    after: () => () => undefined,
    soon: (callback) => due.push(callback),
    endTurn: () => {
      for (const callback of due.splice(0)) callback();
    },
  };
}

test("pass() holds nobody who comes alone", () => {
  const clock = handClock();
  let turns = 0;
  const gate = new EventLoopGate(clock, () => {
    turns += 1;
  });
  for (let turn = 0; turn < 3; turn += 1) {
    assert.equal(gate.pass(), true);
    clock.endTurn();
  }
  assert.equal(turns, 0);
});

test("pass() holds those who come behind another one until the turn ends, and in crowded times the first too", () => {
  const clock = handClock();
  let turns = 0;
  const gate = new EventLoopGate(clock, () => {
    turns += 1;
  });
  assert.deepEqual([gate.pass(), gate.pass(), gate.pass()], [true, false, false]);
  clock.endTurn();
  assert.equal(turns, 1);
  assert.equal(gate.pass(), false);
  clock.endTurn();
  assert.equal(turns, 2);
  assert.equal(gate.pass(), true);
  clock.endTurn();
  assert.equal(turns, 2);
});
