/** Groups of RPCs that need a metadata key. */
import { createHash, timingSafeEqual } from "node:crypto";
import type { GrpcProtocolGroup, GrpcRestriction } from "./options.ts";
import type { Metadata } from "./routes/method.ts";
import { GRPC_STATUS, GrpcError } from "./status.ts";

const KEY_PREFIX = "triton-grpc-protocol-";

/** @throws GrpcError when the group is restricted and the call does not carry its key */
export function expectAllowed(
  restricted: ReadonlyMap<GrpcProtocolGroup, GrpcRestriction>,
  group: GrpcProtocolGroup | undefined,
  metadata: Metadata,
): void {
  const restriction = group === undefined ? undefined : restricted.get(group);
  if (restriction === undefined) return;
  const name = `${KEY_PREFIX}${restriction.key.toLowerCase()}`;
  const given = Object.hasOwn(metadata, name) ? metadata[name] : undefined;
  if (typeof given === "string" && isSameSecret(given, restriction.value)) return;
  const header = `${KEY_PREFIX}${restriction.key}`;
  throw new GrpcError(GRPC_STATUS.unavailable, `This protocol is restricted, expecting header '${header}'`);
}

/** Takes the same time whatever differs. */
function isSameSecret(given: string, wanted: string): boolean {
  return timingSafeEqual(createHash("sha256").update(given).digest(), createHash("sha256").update(wanted).digest());
}
