/** Gauges of open connections and requests per front end. */
import type { MetricFamily, MetricSample } from "./metrics.ts";

export interface OpenWork {
  readonly connectionCount: number;
  /** Requests without a complete response. */
  readonly callCount: number;
}

/** `fronts`: by protocol name. */
export function openWorkFamilies(fronts: ReadonlyMap<string, OpenWork>): MetricFamily[] {
  return [
    gauge("nereid_open_connections", "Connections that clients have open", fronts, (front) => front.connectionCount),
    gauge("nereid_open_calls", "Requests that are not answered to their end", fronts, (front) => front.callCount),
  ];
}

function gauge(
  name: string,
  help: string,
  fronts: ReadonlyMap<string, OpenWork>,
  read: (front: OpenWork) => number,
): MetricFamily {
  return {
    name,
    help,
    type: "gauge",
    *collect(): Generator<MetricSample, void> {
      for (const [protocol, front] of fronts) yield { labels: { protocol }, value: read(front) };
    },
  };
}
