/** Health requests of KServe V2 (Open Inference Protocol, "Health"): the status alone is the response. */

import type { CallOptions } from "../call-options.ts";
import { ClientError } from "../client-error.ts";
import type { Transport } from "./transport.ts";

/** Statuses that mean "not ready". Others (wrong address, no permission) are errors. */
const NOT_HEALTHY: ReadonlySet<number> = new Set([400, 503]);

/** @throws ClientError if the server does not answer */
export async function isHealthy(transport: Transport, path: string, options: CallOptions): Promise<boolean> {
  const status = await transport.status({ method: "GET", path }, options);
  if (status === 200) return true;
  if (NOT_HEALTHY.has(status)) return false;
  throw new ClientError("server", `GET ${path}: HTTP ${status}`, { status });
}
