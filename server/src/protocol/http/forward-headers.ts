/**
 * Turns request headers that match `--http-header-forward-pattern` into request parameters (Triton's parameters
 * extension).
 */
import type { ParameterValue } from "../../core/infer-request.ts";
import { invalidArgument } from "../../core/server-error.ts";

/** Names that mean something to the server itself, so that a header cannot pretend to be them. */
const RESERVED: ReadonlySet<string> = new Set([
  "sequence_id",
  "sequence_start",
  "sequence_end",
  "priority",
  "timeout",
  "headers",
  "binary_data_output",
]);

/** Adds the headers that match to `parameters`. @throws ServerError for a reserved name */
export function forwardHeaders(
  pattern: RegExp,
  rawHeaders: readonly string[],
  parameters: Map<string, ParameterValue>,
): void {
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    if (!pattern.test(name)) continue;
    if (RESERVED.has(name) || name.startsWith("triton_")) {
      throw invalidArgument(`Header '${name}' is reserved for Triton usage and cannot be forwarded.`);
    }
    parameters.set(name, rawHeaders[i + 1] ?? "");
  }
}
