/** Activities that a backend adds to a trace, as triton-inference-server/identity_backend does with `enable_custom_tracing`. */
import { setTimeout as sleep } from "node:timers/promises";
import type { RequestTrace } from "../../core/request-trace.ts";

const ACTIVITY_MS = 100;

/** One activity, a single moment, then `nested` activities one within the other, each with a single moment. */
export async function traceActivities(trace: RequestTrace, nested: number): Promise<void> {
  const mark = (name: `CUSTOM_${string}`): void => trace.mark(name, performance.now());
  mark("CUSTOM_ACTIVITY_START");
  await sleep(ACTIVITY_MS);
  mark("CUSTOM_ACTIVITY_END");
  mark("CUSTOM_SINGLE_ACTIVITY");
  for (let i = 0; i < nested; i += 1) {
    mark(`CUSTOM_ACTIVITY${i}_START`);
    await sleep(ACTIVITY_MS);
    mark("CUSTOM_SINGLE_ACTIVITY");
  }
  for (let i = nested - 1; i >= 0; i -= 1) mark(`CUSTOM_ACTIVITY${i}_END`);
}
