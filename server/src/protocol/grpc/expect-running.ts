/** Health answers while the server drains (KServe V2, health). */
import type { ModelServer } from "../../core/model-server.ts";
import { ServerError } from "../../core/server-error.ts";

export function expectRunning(server: ModelServer): void {
  if (server.state === "exiting") throw new ServerError("unavailable", "Server exiting");
}
