/**
 * APIs that `--http-restricted-api` and `--grpc-restricted-protocol` lock behind a header. Both protocols compare
 * secrets here, in constant time. Source: Triton's inference protocols page, "Limit Endpoint Access".
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { RestrictedApi } from "../core/restricted-api.ts";

/** These APIs need the header `key` to be exactly `value`. */
export interface RestrictedGroup<Api extends string = RestrictedApi> {
  readonly apis: readonly Api[];
  /** Name of the header or metadata key, in the case that error messages show. */
  readonly key: string;
  readonly value: string;
}

interface Lock {
  readonly key: string;
  /** Name of the header or metadata key, in lower case. */
  readonly header: string;
  readonly digest: Buffer;
}

export class Restrictions<Api extends string = RestrictedApi> {
  readonly #locks = new Map<Api, Lock>();

  constructor(groups: Iterable<RestrictedGroup<Api>>) {
    for (const { apis, key, value } of groups) {
      const lock = { key, header: key.toLowerCase(), digest: digestOf(value) };
      for (const api of apis) this.#locks.set(api, lock);
    }
  }

  /** The name of the header that is missing or wrong; undefined when the call may pass. */
  missingKey(api: Api, header: (name: string) => string | undefined): string | undefined {
    const lock = this.#locks.get(api);
    if (lock === undefined) return undefined;
    const given = header(lock.header);
    return given !== undefined && timingSafeEqual(digestOf(given), lock.digest) ? undefined : lock.key;
  }
}

/** Digests have one length, so that the comparison reveals neither content nor length. */
function digestOf(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}
