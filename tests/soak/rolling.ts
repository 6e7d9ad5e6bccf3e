/** Up to fifty restarts behind each proxy, and of workers, under 200 requests a second and 20 streams; each gets its share of the time. */
import assert from "node:assert/strict";
import { proxies } from "../support/proxies.ts";
import { type Extent, type Restarted, restartBehind, rollWorkers } from "../workers/restarts-behind.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const NUM_RESTARTS = 50;

export const rollingSoak: Soak = { name: "rolling", run };

async function run({ deadlineMs }: SoakOptions): Promise<SoakResult> {
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
  const tried = await proxies();
  const extent = (numLeft: number): Extent => {
    const nowMs = performance.now();
    return { restarts: NUM_RESTARTS, deadlineMs: nowMs + (deadlineMs - nowMs) / numLeft };
  };
  for (const [index, proxy] of tried.entries()) {
    assert.equal(proxy.reason, undefined, proxy.name);
    note(proxy.name, await restartBehind(proxy, extent(tried.length + 1 - index)));
  }
  note("workers", await rollWorkers(extent(1)));
  return result;
}
