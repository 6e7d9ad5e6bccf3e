/** Fifty restarts behind each proxy, and fifty of workers, under 200 requests a second and 20 streams. The time asked for is not used. */
import assert from "node:assert/strict";
import { proxies } from "../support/proxies.ts";
import { type Restarted, restartBehind, rollWorkers } from "../workers/restarts-behind.ts";
import type { Soak, SoakResult } from "./soak.ts";

const NUM_RESTARTS = 50;

export const rollingSoak: Soak = { name: "rolling", run };

async function run(): Promise<SoakResult> {
  const result: Record<string, number> = {};
  const note = (name: string, { restarts, answered, streams, lost }: Restarted): void => {
    assert.deepEqual(lost, [], name);
    Object.assign(result, {
      [`${name}: restarts`]: restarts,
      [`${name}: answered`]: answered,
      [`${name}: streams`]: streams,
      [`${name}: lost`]: lost.length,
    });
  };
  for (const proxy of await proxies()) {
    assert.equal(proxy.reason, undefined, proxy.name);
    note(proxy.name, await restartBehind(proxy, NUM_RESTARTS));
  }
  note("workers", await rollWorkers(NUM_RESTARTS));
  return result;
}
