/** The way from the thread of a model to the server. */
import type { FromThread } from "../messages.ts";

export interface ThreadLink {
  post(message: FromThread, transfer?: readonly ArrayBuffer[]): void;
}
