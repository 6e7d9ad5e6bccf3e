/** The store has moved on since it was listed: list it again, then ask again. */
import { ToolError } from "@nereid/server/files/tool-error";
import { RefusedRequest } from "./exchange.ts";

export class StaleListing extends ToolError {
  constructor(message: string) {
    super(message);
    this.name = "StaleListing";
  }
}

/** A refusal of an object that the listing had, by one of `statuses`, as what it means; every other error as it is. */
export function asStale(error: unknown, statuses: readonly number[], url: string, path: string): unknown {
  if (!(error instanceof RefusedRequest) || !statuses.includes(error.status)) return error;
  return new StaleListing(`${url}: '${path}' has changed since it was listed`);
}
