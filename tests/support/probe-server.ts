/** Looks at a running server from outside: does it answer, what do its metrics say, how much memory does it hold. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { ServerProcess } from "./server-process.ts";

const PAGE_BYTES = 4096;
const POLL_MS = 50;
const SIXTEEN: readonly number[] = Array.from({ length: 16 }, (_, i) => i);
/** A request of the model `simple`: 0..15 plus 0..15. */
export const SIMPLE_REQUEST: string = JSON.stringify({
  inputs: ["INPUT0", "INPUT1"].map((name) => ({ name, datatype: "INT32", shape: [1, 16], data: SIXTEEN })),
});

/** Asserts that the process runs, computes right and has met no fault that it did not expect itself. */
export async function assertSound(server: ServerProcess): Promise<void> {
  assert.equal(server.exitCode(), undefined, `the server has ended:\n${server.log().slice(-4000)}`);
  const reply = await fetch(`${server.baseUrl}/v2/models/simple/infer`, { method: "POST", body: SIMPLE_REQUEST });
  const { outputs } = (await reply.json()) as {
    outputs: readonly { readonly name: string; readonly data: number[] }[];
  };
  assert.deepEqual(
    outputs.find(({ name }) => name === "OUTPUT0")?.data,
    SIXTEEN.map((x) => 2 * x),
  );
  // Only what nobody foresaw is logged with a stack.
  const stacks = server
    .log()
    .split("\n")
    .filter((line) => /\\n\s+at .+:\d+:\d+/.test(line));
  assert.deepEqual(stacks, []);
}

/** The sum over all series of the family whose labels contain every text of `labels`. @throws when there is none */
export async function readMetric({ metrics }: ServerProcess, family: string, ...labels: string[]): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${metrics}/metrics`)).text();
  const lines = text.split("\n").filter((line) => line.startsWith(`${family}{`) || line.startsWith(`${family} `));
  const wanted = lines.filter((line) => labels.every((label) => line.includes(label)));
  assert.notEqual(wanted.length, 0, `no series of ${family} with ${labels.join(", ")}`);
  return wanted.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

/** Waits until the condition holds. @throws AssertionError with the last value when it does not within the time */
export async function eventually<T>(
  read: () => Promise<T>,
  isRight: (value: T) => boolean,
  withinMs = 120_000,
): Promise<T> {
  const deadlineMs = performance.now() + withinMs;
  for (;;) {
    const value = await read();
    if (isRight(value)) return value;
    assert.ok(performance.now() < deadlineMs, `still ${JSON.stringify(value)} after ${withinMs} ms`);
    await sleep(POLL_MS);
  }
}

/** Resident memory of a process, as Linux counts it. */
export async function residentBytes(pid: number): Promise<number> {
  const statm = await readFile(`/proc/${pid}/statm`, "utf8");
  return Number(statm.split(" ")[1]) * PAGE_BYTES;
}
