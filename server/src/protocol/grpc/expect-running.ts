/** Health answers of a server that is about to end. */
import type { ModelServer } from "../../core/model-server.ts";
import { ServerError } from "../../core/server-error.ts";

export function expectRunning(server: ModelServer): void {
  if (server.state === "exiting") throw new ServerError("unavailable", "Server exiting");
}
