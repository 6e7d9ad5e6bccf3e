/** What a worker process and its owner tell each other. Bodies are theirs; values and bytes are copied, nothing is run. */
import type { ErrorCode } from "../core/server-error.ts";

export interface WorkerCall {
  readonly id: number;
  readonly body: unknown;
}

export type WorkerReply =
  | { readonly kind: "ready" }
  /** It cannot do its work at all, for a reason that users can do something about. */
  | { readonly kind: "unusable"; readonly code: ErrorCode; readonly problem: string }
  | { readonly kind: "result"; readonly id: number; readonly body: unknown }
  /** The call was wrong or could not be done, in words for clients. */
  | { readonly kind: "refused"; readonly id: number; readonly code: ErrorCode; readonly problem: string }
  /** A fault of ours, in words for the log. */
  | { readonly kind: "fault"; readonly id: number; readonly fault: string };
