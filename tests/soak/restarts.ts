/** Ends a loaded server with SIGTERM, again and again, and counts the requests that this cost. */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { sendUntilTold, type Tally } from "../support/drain-load.ts";
import { KeepAliveClient } from "../support/hostile-http.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { createRandom } from "../support/random.ts";
import { startServerProcess } from "../support/server-process.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const NUM_CLIENTS = 50;
const MAX_LOAD_MS = 1000;
const FLAGS = ["--model-control-mode=explicit", "--load-model=simple"];

export const restartsSoak: Soak = { name: "restarts", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const random = createRandom(seed);
  const tally: Tally = { answered: 0, lost: [] };
  let restarts = 0;
  for (; performance.now() < deadlineMs; restarts += 1) {
    const server = await startServerProcess({ repositories: [EXAMPLES], flags: FLAGS });
    try {
      using client = new KeepAliveClient(server.http, NUM_CLIENTS);
      const clients = Promise.all(Array.from({ length: NUM_CLIENTS }, () => sendUntilTold(client, tally)));
      await sleep(random.below(MAX_LOAD_MS));
      await server.stop();
      await clients;
      assert.deepEqual(tally.lost, [], `restart ${restarts}`);
    } finally {
      await server.kill();
    }
  }
  return { restarts, answered: tally.answered, lost: tally.lost.length };
}
