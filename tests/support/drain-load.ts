/** Load on a server that is about to end, and the count of what that costs. */
import assert from "node:assert/strict";
import type { KeepAliveClient } from "./hostile-http.ts";
import { SIMPLE_REQUEST } from "./probe-server.ts";

export interface Tally {
  answered: number;
  /** Errors of requests that were sent on a connection and got no answer. */
  readonly lost: string[];
}

/** Sends one request after the other until the server says that it ends, or takes no more connections. */
export async function sendUntilTold(client: KeepAliveClient, tally: Tally): Promise<void> {
  for (;;) {
    try {
      const { status, body, isLast } = await client.send({ path: "/v2/models/simple/infer", body: SIMPLE_REQUEST });
      assert.equal(status, 200, body.toString());
      tally.answered += 1;
      if (isLast) return;
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      if ((error as NodeJS.ErrnoException).code === "ECONNREFUSED") return;
      tally.lost.push(String(error));
    }
  }
}
