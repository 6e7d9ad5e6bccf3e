/** A server that a supervisor started: it says when it is ready, and does what the supervisor asks. */
import process from "node:process";
import type { RunningServer } from "../start-server.ts";
import { type FromWorker, parseToWorker } from "./worker-message.ts";

/** Resolves when the server has stopped: whether all requests had their time. */
export function serveAsWorker(server: RunningServer): Promise<boolean> {
  return new Promise((resolve) => {
    let isStopping = false;
    const stop = (isHandedOver: boolean): void => {
      if (isStopping) return;
      isStopping = true;
      void server.stop(isHandedOver).then(resolve);
    };
    process.on("message", (value) => {
      const message = parseToWorker(value);
      if (message?.kind === "scrape") void sendPage(server, message.id);
      else if (message?.kind === "hurry") server.hurry();
      else if (message !== undefined) stop(message.kind === "retire");
    });
    // A terminal sends ctrl-C to all processes: the supervisor says what follows from it.
    process.on("SIGINT", () => undefined);
    process.on("SIGHUP", () => undefined);
    // Sent to this process alone: the others serve on, and the supervisor starts another.
    process.on("SIGTERM", () => stop(true));
    tell({ kind: "ready" });
  });
}

async function sendPage(server: RunningServer, id: number): Promise<void> {
  tell({ kind: "page", id, text: await server.renderMetrics() });
}

function tell(message: FromWorker): void {
  process.send?.(message);
}
