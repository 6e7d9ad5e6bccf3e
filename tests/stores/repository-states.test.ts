/** Model repositories whose store refuses, stalls, is cut, late or reset. `npm run soak -- stores` does this with every store. */
import { after, before, describe, test } from "node:test";
import { testSize } from "../support/long-tests.ts";
import {
  expectRepositoryState,
  expectResumed,
  REPOSITORY_STATES,
  type ServedStore,
  STORE_KINDS,
  serveStore,
} from "../support/repository-states.ts";

for (const kind of STORE_KINDS.slice(0, testSize(1, STORE_KINDS.length))) {
  describe(`a repository at ${kind}: through a proxy`, { timeout: 600_000 }, () => {
    let all: ServedStore;
    before(async () => {
      all = await serveStore(kind);
    });
    after(() => all[Symbol.asyncDispose]());

    for (const each of REPOSITORY_STATES) {
      test(`a store that ${each.title} is told, and found when it is back`, () => expectRepositoryState(all, each));
    }

    test("a large file arrives over connections that end too early", () => expectResumed(all));
  });
}
