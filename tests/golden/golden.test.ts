/**
 * Replays every recorded answer against the built server. Failures must be those of known-failures.json, all of them and no others:
 * the list may only become shorter.
 */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { after, describe, it, test } from "node:test";
import { fileURLToPath } from "node:url";
import { pythonVenv } from "../python-venv.ts";
import { openGoldenSet, type ProbeResult, replay } from "../support/golden-replay.ts";
import { faultsOfList, judgeReplay, type KnownFailures } from "../support/judge-replay.ts";

const venv = await pythonVenv(["numpy"]);
const golden = await openGoldenSet(venv.python);
const known = JSON.parse(readFileSync(new URL("known-failures.json", import.meta.url), "utf8")) as KnownFailures;
/** Read by tools/golden-report.ts. */
const RESULT_FILE = fileURLToPath(new URL("../../.cache/golden-result.json", import.meta.url));
/** More failures than this are no matter of chance, and each costs a start of the server. */
const MAX_RETRIES = 10;
const MAX_SHOWN = 40;
const TIMEOUT_MS = 850_000;
const all: ProbeResult[] = [];

after(async () => {
  await golden[Symbol.asyncDispose]();
  mkdirSync(fileURLToPath(new URL("../../.cache", import.meta.url)), { recursive: true });
  writeFileSync(RESULT_FILE, `${JSON.stringify({ skipped: golden.skipped, results: all }, null, 1)}\n`);
});

test("known-failures.json names recordings, each once", () => {
  const recorded = new Set([...golden.probes.map(({ id }) => id), ...golden.skipped]);
  assert.deepEqual(faultsOfList(known, recorded), []);
});

for (const id of golden.skipped) test(id, { skip: venv.reason ?? false });

describe("recorded answers", { concurrency: 2 }, () => {
  for (const profile of golden.profiles) {
    it(`profile ${profile} answers as recorded`, { timeout: TIMEOUT_MS }, async () => {
      const results = await withSecondChance(profile, await replay(golden, { profile }));
      all.push(...results);
      assert.equal(results.length, golden.probes.filter(({ mode }) => mode === profile).length);
      const { unexpected, repaired } = judgeReplay(results, known);
      const message = messageOf(unexpected, repaired);
      assert.ok(message === "", message);
    });
  }
});

/** A probe that fails without being listed is sent once more, alone, to a fresh server: two cores are shared with other tests. */
async function withSecondChance(profile: string, results: readonly ProbeResult[]): Promise<readonly ProbeResult[]> {
  const { unexpected } = judgeReplay(results, known);
  if (unexpected.length > MAX_RETRIES) return results;
  const better = new Map<string, ProbeResult>();
  for (const { id } of unexpected) {
    for (const again of await replay(golden, { profile, id })) better.set(id, again);
  }
  return results.map((result) => better.get(result.id) ?? result);
}

function messageOf(unexpected: readonly ProbeResult[], repaired: readonly string[]): string {
  const failures = unexpected.slice(0, MAX_SHOWN).map(({ id, diff }) => `  ${id}: ${diff}\n`);
  const gone = repaired.map((id) => `  ${id}\n`);
  return [
    ...(failures.length > 0 ? [`${unexpected.length} new failures, the first of them:\n`, ...failures] : []),
    ...(gone.length > 0 ? ["pass now, remove them from tests/golden/known-failures.json:\n", ...gone] : []),
  ].join("");
}
