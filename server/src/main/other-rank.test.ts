import assert from "node:assert/strict";
import { test } from "node:test";
import { otherRank } from "./other-rank.ts";

const SECOND = { RANK: "1", WORLD_SIZE: "2", MASTER_ADDR: "10.0.0.1", MASTER_PORT: "29500", LOCAL_RANK: "1" };

test("otherRank() is what launchers of several processes say to all but the first", () => {
  const expected = { rank: 1, worldSize: 2, address: "10.0.0.1", port: 29500, ordinal: 1, timeoutMs: 300_000 };
  assert.deepEqual(otherRank(SECOND), expected);
  assert.deepEqual(otherRank({ ...SECOND, LOCAL_RANK: undefined, NEREID_RANK_TIMEOUT_S: "5" }), {
    ...expected,
    ordinal: 0,
    timeoutMs: 5000,
  });
  for (const changes of [{ RANK: "0" }, { RANK: undefined }, { WORLD_SIZE: "1" }, { MASTER_ADDR: undefined }]) {
    assert.equal(otherRank({ ...SECOND, ...changes }), undefined);
  }
});
