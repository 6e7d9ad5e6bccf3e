/** How options read in a process behind a supervisor, which keeps the ports and scrapes the metrics of all. */
import type { ServerOptions } from "../../config/flags/server-options.ts";

export function workerOptions(options: ServerOptions): ServerOptions {
  const { http, grpc, metrics } = options;
  return {
    ...options,
    // The sockets are handed down already; a second socket at the port would be one that the supervisor does not know.
    http: { ...http, reusePort: false },
    grpc: { ...grpc, reusePort: false },
    metrics: { ...metrics, hasOwnPort: false },
  };
}
