/** RPCs locked behind a metadata key (Source: Triton's inference protocols page, "Limit Endpoint Access"). */
import type { RestrictedApi } from "../../core/restricted-api.ts";
import { type RestrictedGroup, Restrictions } from "../restriction.ts";
import type { Metadata } from "./routes/method.ts";
import { GRPC_STATUS, GrpcError } from "./status.ts";

/** Triton puts this in front of the key that the user chose. */
const KEY_PREFIX = "triton-grpc-protocol-";

/** Keys may come with the prefix or without it. */
export function grpcRestrictions(groups: readonly RestrictedGroup[]): Restrictions {
  return new Restrictions(groups.map((group) => ({ ...group, key: withPrefix(group.key) })));
}

function withPrefix(key: string): string {
  return key.startsWith(KEY_PREFIX) ? key : `${KEY_PREFIX}${key}`;
}

/** @throws GrpcError when the group is restricted and the call does not carry its key */
export function expectAllowed(restrictions: Restrictions, group: RestrictedApi | undefined, metadata: Metadata): void {
  if (group === undefined) return;
  const missing = restrictions.missingKey(group, (name) => metadataText(metadata, name));
  if (missing === undefined) return;
  throw new GrpcError(GRPC_STATUS.unavailable, `This protocol is restricted, expecting header '${missing}'`);
}

/** Binary and repeated metadata are no secrets. */
export function metadataText(metadata: Metadata, name: string): string | undefined {
  const value = Object.hasOwn(metadata, name) ? metadata[name] : undefined;
  return typeof value === "string" ? value : undefined;
}
