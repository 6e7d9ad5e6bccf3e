/** How many executions had which batch size, since the models were loaded. */
import type { ConsoleModelLoad } from "@nereid/server/protocol/console/console-types";
import type { JSX } from "preact";
import { shortNumber } from "../lib/format.ts";
import { batchCounts } from "./rates.ts";

const MAX_ROWS = 12;

export function BatchSizes({ models }: { readonly models: readonly ConsoleModelLoad[] }): JSX.Element {
  const counts = batchCounts(models);
  const most = Math.max(1, ...counts.map(([, count]) => count));
  const hidden = counts.length - MAX_ROWS;
  return (
    <section class="card chart">
      <h2>
        Batch sizes <span class="muted">executions since load</span>
      </h2>
      {counts.length === 0 && <p class="empty small">Nothing was executed yet.</p>}
      <ul class="bars">
        {counts.slice(0, MAX_ROWS).map(([size, count]) => (
          <li key={size}>
            <span class="bar-label">{size}</span>
            <meter min={0} max={most} value={count} aria-label={`Batch size ${size}`} />
            <span class="bar-value">{shortNumber(count)}</span>
          </li>
        ))}
      </ul>
      {hidden > 0 && <p class="muted">{hidden} larger sizes are not shown.</p>}
    </section>
  );
}
