import assert from "node:assert/strict";
import { test } from "node:test";
import { EXIT_NO_LEADER, followLeaders } from "./rank-host.ts";

test("followLeaders() follows the next leader, however the last one ended, until none comes", async () => {
  const codes = [0, 70, EXIT_NO_LEADER, 0];
  let numPauses = 0;
  const code = await followLeaders(
    async () => codes.shift() ?? assert.fail("followed too long"),
    async () => {
      numPauses += 1;
    },
  );
  assert.deepEqual([code, numPauses, codes], [1, 2, [0]]);
});
