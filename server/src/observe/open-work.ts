/** Gauges of what clients have open at each front end. Knows no protocol but its name. */
import type { MetricFamily, MetricSample } from "./metrics.ts";

export interface OpenWork {
  readonly connectionCount: number;
  /** Requests that are not answered to their end. */
  readonly callCount: number;
}

/** `fronts`: by the name of the protocol. */
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
