/**
 * How to fix failures with a usual reason. Knows words of Triton's errors, which servers of the protocol share.
 * Statuses: RFC 9110, section 15.
 */
import type { ClientErrorKind, ErrorDetails } from "./error-details.ts";

export interface Failure extends ErrorDetails {
  readonly kind: ClientErrorKind;
  readonly message: string;
}

/** The first that fits holds. */
const HINTS: readonly (readonly [fits: (failure: Failure) => boolean, hint: string])[] = [
  [
    ({ kind, isUnsent }) => kind === "network" && isUnsent === true,
    "Check that the server runs and the port of the address: 8000 for HTTP and 8001 for gRPC by default",
  ],
  [({ kind }) => kind === "network", "The connection broke: set isIdempotent if the call may run twice"],
  [({ kind }) => kind === "timeout", "Raise timeoutMs, or look for a full queue in the statistics of the model"],
  [says(/unknown model|not found/i), "repository.index() lists the models of the server and their states"],
  [says(/not ready|no available versions/i), "repository.index() has the reason why a model is not ready"],
  [
    says(/explicit model (load|control)|polling is enabled/i),
    "Start the server with --model-control-mode=explicit to load and unload models",
  ],
  [
    says(/shared memory (region )?(is )?(not|dis)|shared memory.*(not supported|disabled|not allowed)/i),
    "Start the server with --allow-client-shm=true, and register the region before it is used",
  ],
  [
    says(/shape|datatype|data-type|data type|expected \d+ inputs|unexpected inference input|missing/i),
    "metadata() of the model has the names, datatypes and shapes; `nereid types` makes the compiler check them",
  ],
  [has(401, 16), "Give the key as a header: headers: { authorization: 'Bearer ...' }"],
  [has(403, 7), "The key or the restricted access of the server does not allow this call"],
  [has(413), "The request is larger than --http-max-input-size of the server"],
  [has(429, 8), "Send fewer requests at once, or wait as long as retryAfterMs says"],
  [has(503, 14), "The server is full or stops: try again later"],
];

export function hintFor(failure: Failure): string | undefined {
  return HINTS.find(([fits]) => fits(failure))?.[1];
}

function says(pattern: RegExp): (failure: Failure) => boolean {
  return ({ kind, message }) => kind === "server" && pattern.test(message);
}

function has(status: number, grpcStatus?: number): (failure: Failure) => boolean {
  return (failure) =>
    failure.kind === "server" &&
    (failure.status === status || (grpcStatus !== undefined && failure.grpcStatus === grpcStatus));
}
