/** Requests whose database refuses, stalls, is cut, late or reset. `npm run soak -- stores` does this with every database. */
import { after, before, describe, test } from "node:test";
import {
  type DatabaseServer,
  expectBack,
  expectState,
  MONGO,
  STATES,
  serveDatabase,
} from "../support/database-states.ts";

describe("MongoDB through a proxy", { timeout: 600_000 }, () => {
  let all: DatabaseServer;
  before(async () => {
    all = await serveDatabase(MONGO, { kind: "refuses" });
  });
  after(async () => {
    await all.server.stop();
    await all[Symbol.asyncDispose]();
  });

  test("a database that was absent at the start is told, and found when it comes", async () => {
    await expectState(all, { title: "absent", state: { kind: "refuses" }, reason: /ECONNREFUSED/ });
    await expectBack(all);
  });

  for (const each of STATES)
    test(`a database that ${each.title} is told, and found when it is back`, () => expectState(all, each));
});
