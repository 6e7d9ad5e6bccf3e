/**
 * API keys of RPCs: the metadata `authorization`, `x-api-key` or `api-key` carries the key (RFC 6750, 2.1; gRPC over
 * HTTP/2, "Custom-Metadata").
 */
import { AccessRefusal } from "../../access/access-refusal.ts";
import type { KeyGate } from "../../access/key-gate.ts";
import type { RestrictedApi } from "../../core/restricted-api.ts";
import { ServerError } from "../../core/server-error.ts";
import { CallAccess, keyOf, REFUSAL_STATUS } from "../call-access.ts";
import { statusOf } from "../http/status.ts";
import { metadataText } from "./restriction.ts";
import type { Metadata } from "./routes/method.ts";

/** Health needs no key; reflection, which is of no group, does. @throws AccessRefusal */
export function expectKey(
  keys: KeyGate | undefined,
  group: RestrictedApi | undefined,
  metadata: Metadata,
): CallAccess | undefined {
  if (keys === undefined || group === "health") return undefined;
  const key = keyOf((name) => metadataText(metadata, name));
  const access = new CallAccess(keys, key, metadata[":path"] ?? "");
  if (group !== undefined) access.expect(group, "");
  return access;
}

/** One inference of a call, which counts for its key. `access` is that of the inference. @throws AccessRefusal */
export async function admitted<T>(access: CallAccess | undefined, model: string, run: () => Promise<T>): Promise<T> {
  if (access === undefined) return run();
  access.admit(model);
  try {
    const result = await run();
    access.answered(200);
    return result;
  } catch (error) {
    access.answered(httpStatusOf(error));
    throw error;
  }
}

/** An error as a message of a stream shows it. */
export function shownError(thrown: unknown): ServerError {
  const isRefusal = thrown instanceof AccessRefusal;
  return isRefusal ? new ServerError("unavailable", thrown.message, { cause: thrown }) : ServerError.from(thrown);
}

/** The ledger has HTTP's statuses for every protocol. */
function httpStatusOf(thrown: unknown): number {
  if (thrown instanceof AccessRefusal) return REFUSAL_STATUS[thrown.reason];
  return statusOf(ServerError.from(thrown).code);
}
