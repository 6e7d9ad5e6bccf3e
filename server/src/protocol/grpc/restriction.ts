/** RPCs locked behind a metadata key (Source: Triton's inference protocols page, "Limit Endpoint Access"). */
import type { RestrictedApi, Restrictions } from "../restriction.ts";
import type { Metadata } from "./routes/method.ts";
import { GRPC_STATUS, GrpcError } from "./status.ts";

/** @throws GrpcError when the group is restricted and the call does not carry its key */
export function expectAllowed(restrictions: Restrictions, group: RestrictedApi | undefined, metadata: Metadata): void {
  if (group === undefined) return;
  const missing = restrictions.missingKey(group, (name) => textOf(metadata, name));
  if (missing === undefined) return;
  throw new GrpcError(GRPC_STATUS.unavailable, `This protocol is restricted, expecting header '${missing}'`);
}

/** Binary and repeated metadata are no secrets. */
function textOf(metadata: Metadata, name: string): string | undefined {
  const value = Object.hasOwn(metadata, name) ? metadata[name] : undefined;
  return typeof value === "string" ? value : undefined;
}
