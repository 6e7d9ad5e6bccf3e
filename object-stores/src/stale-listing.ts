/**
 * Signals that the store has changed since it was listed: list again, then retry. Source: RFC 9110, section 13.1, for
 * conditional requests.
 */
import { ToolError } from "@nereid/server/files/tool-error";
import { RefusedRequest } from "./exchange.ts";

export class StaleListing extends ToolError {
  constructor(message: string) {
    super(message);
    this.name = "StaleListing";
  }
}

/** Converts a refusal with one of `statuses`, of a listed object, to StaleListing; other errors pass unchanged. */
export function asStale(error: unknown, statuses: readonly number[], url: string, path: string): unknown {
  if (!(error instanceof RefusedRequest) || !statuses.includes(error.status)) return error;
  return new StaleListing(`${url}: '${path}' has changed since it was listed`);
}
