/** Each database and each kind of model repository in each state, through a proxy, again and again in random order. */
import assert from "node:assert/strict";
import {
  type DatabaseServer,
  expectState,
  MONGO,
  POSTGRES,
  STATES,
  serveDatabase,
} from "../support/database-states.ts";
import { createRandom, type Random } from "../support/random.ts";
import {
  expectRepositoryState,
  expectResumed,
  REPOSITORY_STATES,
  STORE_KINDS,
  serveStore,
} from "../support/repository-states.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

export const storesSoak: Soak = { name: "stores", run };

type Tally = Record<string, number>;

/** One round at least, however few the minutes are. */
async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const random = createRandom(seed);
  const tally: Tally = {};
  for (let rounds = 1; ; rounds += 1) {
    for (const database of [MONGO, POSTGRES]) {
      const all = await serveDatabase(database, { kind: "refuses" });
      try {
        await playDatabase(all, random, tally);
        await all.server.stop();
      } finally {
        await all[Symbol.asyncDispose]();
      }
    }
    for (const kind of STORE_KINDS) await playRepository(kind, random, tally);
    tally.rounds = rounds;
    if (performance.now() >= deadlineMs) return tally;
  }
}

async function playDatabase(all: DatabaseServer, random: Random, tally: Tally): Promise<void> {
  await expectState(all, { title: "absent at the start", state: { kind: "refuses" }, reason: /ECONNREFUSED/ });
  for (const each of shuffled(STATES, random)) {
    await expectState(all, each);
    count(tally, `${all.database.name} ${each.title}`);
  }
  assert.equal(all.server.exitCode(), undefined);
}

async function playRepository(kind: (typeof STORE_KINDS)[number], random: Random, tally: Tally): Promise<void> {
  await using all = await serveStore(kind);
  for (const each of shuffled(REPOSITORY_STATES, random)) {
    await expectRepositoryState(all, each);
    count(tally, `${kind} ${each.title}`);
  }
  await expectResumed(all);
  count(tally, `${kind} resumed`);
}

function count(tally: Tally, name: string): void {
  tally[name] = (tally[name] ?? 0) + 1;
}

function shuffled<T>(items: readonly T[], random: Random): T[] {
  const left = [...items];
  const result: T[] = [];
  while (left.length > 0) result.push(...left.splice(random.below(left.length), 1));
  return result;
}
