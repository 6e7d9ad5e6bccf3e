/**
 * Options of the gRPC front end, checked by the flag parser. Source: Triton's flags
 * (https://github.com/triton-inference-server/server/blob/main/src/command_line_parser.cc).
 */

import type { BindOptions } from "../bind.ts";
import type { BodyBudget } from "../body-budget.ts";
import type { RestrictedGroup } from "../restriction.ts";
import type { TlsMaterial } from "../tls-files.ts";

export type GrpcCompressionLevel = "none" | "low" | "medium" | "high";

export interface GrpcKeepaliveOptions {
  /** Period of the server's own pings. */
  readonly timeMs: number;
  /** Wait for the answer to a ping before the connection is closed. */
  readonly timeoutMs: number;
  /** Ping connections without open calls too. */
  readonly permitWithoutCalls: boolean;
  /** A client that pings more often while the server sends it nothing earns a strike. */
  readonly minRecvPingIntervalMs: number;
  /** Strikes before the connection is closed; 0 = any number. */
  readonly maxPingStrikes: number;
  /** 0 = connections may get as old as they like. */
  readonly maxConnectionAgeMs: number;
  /** Wait for open calls after that age; 0 = until they end. */
  readonly maxConnectionAgeGraceMs: number;
}

export const DEFAULT_GRPC_KEEPALIVE: GrpcKeepaliveOptions = Object.freeze({
  timeMs: 7_200_000,
  timeoutMs: 20_000,
  permitWithoutCalls: false,
  minRecvPingIntervalMs: 300_000,
  maxPingStrikes: 2,
  maxConnectionAgeMs: 0,
  maxConnectionAgeGraceMs: 0,
});

export interface GrpcOptions extends BindOptions {
  /** Keys with or without the prefix `triton-grpc-protocol-`. */
  readonly restricted: readonly RestrictedGroup[];
  /** Metadata keys that match become string parameters of inference requests. */
  readonly forwardPattern: RegExp | undefined;
  /** Compression of inference responses, when the client accepts it. */
  readonly inferCompressionLevel: GrpcCompressionLevel;
  readonly tls: TlsMaterial | undefined;
  readonly keepalive: GrpcKeepaliveOptions;
  /** Largest message in bytes, compressed and inflated. */
  readonly maxMessageBytes: number;
  /** Bytes that the bodies of all requests may hold together; absent: a budget of its own. */
  readonly bodyBudget?: BodyBudget | undefined;
}
