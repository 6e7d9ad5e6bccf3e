import assert from "node:assert/strict";
import { test } from "node:test";
import { ThreadLadder } from "./thread-ladder.ts";

/** Runs `count` graphs of one row on a machine that needs `msOf(threads)`; the numbers of threads that were used. */
function run(ladder: ThreadLadder, count: number, msOf: (threads: number) => number): number[] {
  return Array.from({ length: count }, () => {
    const threads = ladder.choose(1);
    ladder.took(1, msOf(threads));
    return threads;
  });
}

const IDLE = (threads: number): number => 8 / threads;
/** Every node waits for a thread that does not run. */
const CROWDED = (threads: number): number => (threads === 1 ? 16 : 100 * threads);

test("ThreadLadder uses all threads on an idle machine, but for one trial", () => {
  const used = run(new ThreadLadder(4), 200, IDLE);
  assert.deepEqual(
    used.filter((threads) => threads !== 4),
    [2],
  );
});

test("ThreadLadder steps down when graphs wait for processors, and up again once they no longer do", () => {
  const ladder = new ThreadLadder(4);
  run(ladder, 50, IDLE);
  assert.equal(run(ladder, 60, CROWDED).at(-1), 1);
  assert.equal(run(ladder, 200, IDLE).at(-1), 4);
});

test("ThreadLadder finds out when the machine was crowded from the first graph on", () => {
  assert.equal(run(new ThreadLadder(8), 60, CROWDED).at(-1), 1);
});

test("ThreadLadder is not shaken by single slow graphs", () => {
  const ladder = new ThreadLadder(2);
  run(ladder, 20, IDLE);
  const used = run(ladder, 30, IDLE).concat(
    run(ladder, 1, () => 1000),
    run(ladder, 30, IDLE),
  );
  assert.ok(used.every((threads) => threads === 2));
});

test("ThreadLadder judges sizes apart", () => {
  const ladder = new ThreadLadder(2);
  run(ladder, 30, CROWDED);
  assert.equal(ladder.choose(512), 2);
});

test("ThreadLadder has nothing to choose with one thread", () => {
  assert.deepEqual(new Set(run(new ThreadLadder(1), 100, IDLE)), new Set([1]));
});

test("ThreadLadder begins with what was measured before, and still tries more", () => {
  const ladder = new ThreadLadder(4, { decode: 1, prefill: 8 });
  assert.deepEqual([ladder.choose(1), ladder.choose(4), ladder.choose(64)], [1, 1, 4]);
  const used = run(new ThreadLadder(4, { decode: 1, prefill: 4 }), 200, IDLE);
  assert.deepEqual([used[0], used.at(-1)], [1, 4]);
});
