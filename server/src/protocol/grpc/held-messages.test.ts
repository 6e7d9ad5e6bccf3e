import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { BodyBudget } from "../body-budget.ts";
import { frame, openSession, openTestBed, rawCall, STREAM_INFER } from "./test-peer.test-support.ts";

const LIMIT = 1_000_000;
const UNAVAILABLE = "14";

/** A call ends a moment after its status is out. */
async function untilFree(budget: BodyBudget): Promise<void> {
  while (!budget.take(LIMIT)) await new Promise((resolve) => setTimeout(resolve, 5));
  budget.give(LIMIT);
}

test("messages beyond the budget of all bodies are refused, and count no more when their calls end", async (context) => {
  const budget = new BodyBudget(LIMIT);
  const bed = await openTestBed({ bodyBudget: budget });
  const peer = openSession(bed.port);
  context.after(async () => {
    peer.destroy();
    await bed.close();
  });
  const statusOf = async (headers: object, body: Buffer): Promise<unknown> =>
    (await rawCall(peer, headers as Record<string, string>, body)).trailers["grpc-status"];
  for (const path of [{}, { ":path": STREAM_INFER }]) {
    assert.equal(await statusOf(path, frame(Buffer.alloc(LIMIT))), UNAVAILABLE);
    const bomb = frame(gzipSync(Buffer.alloc(50 * LIMIT)), 1);
    assert.equal(await statusOf({ ...path, "grpc-encoding": "gzip" }, bomb), UNAVAILABLE);
    await untilFree(budget);
    assert.notEqual(await statusOf(path, frame(Buffer.alloc(LIMIT / 2))), UNAVAILABLE);
    await untilFree(budget);
  }
});
