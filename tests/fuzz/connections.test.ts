/** A sample of what `npm run soak -- connections` does, with front ends in this process. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openTestBed } from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { eventually } from "../support/probe-server.ts";
import { fuzzConnections } from "./connections.ts";

const SEED = 19;
const NUM_CONNECTIONS = 200;
const WIDTH = 20;

test(`${NUM_CONNECTIONS} connections with broken bytes all end, and leave nothing behind`, async (t) => {
  const bed = await openTestBed();
  t.after(() => bed.close());
  await fuzzConnections({ http: bed.port, grpc: bed.port }, SEED, 0, NUM_CONNECTIONS, WIDTH);
  await eventually(
    async () => bed.frontend.connectionCount + bed.frontend.callCount,
    (count) => count === 0,
  );
  assert.deepEqual(bed.log.errors, []);
});
