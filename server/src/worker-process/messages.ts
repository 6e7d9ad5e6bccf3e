/** Messages between a worker process and its owner. Values and bytes are copied. */
import type { ErrorCode } from "../core/server-error.ts";

export interface WorkerCall {
  readonly id: number;
  readonly body: unknown;
}

export type WorkerReply =
  | { readonly kind: "ready" }
  /** It cannot work at all, for a reason that a user can fix. */
  | { readonly kind: "unusable"; readonly code: ErrorCode; readonly problem: string }
  | { readonly kind: "result"; readonly id: number; readonly body: unknown }
  /** The call was invalid or failed, in words for clients. */
  | { readonly kind: "refused"; readonly id: number; readonly code: ErrorCode; readonly problem: string }
  /** A bug, in words for the log. */
  | { readonly kind: "fault"; readonly id: number; readonly fault: string };
