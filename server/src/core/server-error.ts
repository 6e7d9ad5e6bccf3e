/** The one error class whose message may reach a client. Each protocol maps `ErrorCode` to its own status. */

/** Triton's eight error codes, in lower case. */
export type ErrorCode =
  | "unknown"
  | "internal"
  | "not_found"
  | "invalid_argument"
  | "unavailable"
  | "unsupported"
  | "already_exists"
  | "cancelled";

/** The code as Triton writes it in logs and start-up errors. */
export const ERROR_CODE_NAMES: Readonly<Record<ErrorCode, string>> = {
  unknown: "Unknown",
  internal: "Internal",
  not_found: "Not found",
  invalid_argument: "Invalid argument",
  unavailable: "Unavailable",
  unsupported: "Unsupported",
  already_exists: "Already exists",
  cancelled: "Cancelled",
};

/** The `reason` label of a failed request in `nv_inference_request_failure`. */
export type FailureReason = "REJECTED" | "CANCELED" | "BACKEND" | "OTHER";

interface ServerErrorOptions extends ErrorOptions {
  readonly reason?: FailureReason;
  readonly wasQueued?: boolean;
}

export class ServerError extends Error {
  readonly code: ErrorCode;
  /** Set where the failure is raised; "OTHER" by default. */
  readonly reason: FailureReason;
  /** The request was taken into a queue and failed there, however soon: no refusal. */
  readonly wasQueued: boolean;

  constructor(code: ErrorCode, message: string, options: ServerErrorOptions = {}) {
    super(message, options);
    this.name = "ServerError";
    this.code = code;
    this.reason = options.reason ?? (code === "cancelled" ? "CANCELED" : "OTHER");
    this.wasQueued = options.wasQueued ?? false;
  }

  /** Wraps any thrown value. Other errors must not leak their text: they become "Internal error". */
  static from(thrown: unknown): ServerError {
    if (thrown instanceof ServerError) return thrown;
    return new ServerError("internal", "Internal error", { cause: thrown });
  }
}

/** The error for a request, flag or configuration that breaks a rule. The message says what was expected and what came. */
export function invalidArgument(message: string): ServerError {
  return new ServerError("invalid_argument", message);
}

/** An error of a request that was taken, whenever it came: a backend raised it, or the queue gave the request up. */
export function isFailureOnceTaken(error: unknown): boolean {
  return error instanceof ServerError && (error.reason === "BACKEND" || error.wasQueued);
}

/** For the log only, never for a client: the thrown value with its stack. */
export function describeThrown(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
}
