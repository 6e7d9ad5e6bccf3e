/** The grpc-timeout header (gRPC over HTTP/2, "Timeout"). */

const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };
/** Node's timers fire at once past this; it is 24 days, longer than any call. */
const MAX_TIMER_MS: number = 2 ** 31 - 1;

/** Milliseconds until the deadline; undefined when there is none or, as peers do, when the value is malformed. */
export function parseGrpcTimeout(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const match = /^(\d{1,8})([HMSmun])$/.exec(header);
  const unitMs = UNIT_MS[match?.[2] ?? ""];
  if (unitMs === undefined) return undefined;
  return Math.min(Number(match?.[1]) * unitMs, MAX_TIMER_MS);
}
