/**
 * Decides when a client pings too often (https://github.com/grpc/proposal/blob/master/A8-client-side-keepalive.md,
 * server enforcement).
 */
import type { GrpcKeepaliveOptions } from "../options.ts";

/** Without open calls a client needs no ping; then one is tolerated in two hours, unless idle pings are permitted. */
const IDLE_INTERVAL_MS: number = 2 * 60 * 60 * 1000;

export function isPingTooEarly(sinceLastMs: number, hasCalls: boolean, keepalive: GrpcKeepaliveOptions): boolean {
  const isIdle = !hasCalls && !keepalive.permitWithoutCalls;
  return sinceLastMs < (isIdle ? IDLE_INTERVAL_MS : keepalive.minRecvPingIntervalMs);
}
