/** The APIs that `--http-restricted-api` can lock, and the check of the header that opens them. */
import type { HttpCall } from "./http-call.ts";

export type RestrictedApi =
  | "health"
  | "metadata"
  | "inference"
  | "shared-memory"
  | "model-config"
  | "model-repository"
  | "statistics"
  | "trace"
  | "logging";

/** One group of the flag: these APIs need header `key` to be exactly `value`. */
export interface RestrictedGroup {
  readonly apis: readonly RestrictedApi[];
  readonly key: string;
  readonly value: string;
}

interface Lock {
  readonly key: string;
  /** The header's name as Node gives it. */
  readonly header: string;
  readonly value: string;
}

export class Restrictions {
  readonly #locks = new Map<RestrictedApi, Lock>();

  constructor(groups: readonly RestrictedGroup[]) {
    for (const { apis, key, value } of groups) {
      for (const api of apis) this.#locks.set(api, { key, header: key.toLowerCase(), value });
    }
  }

  /** The key of the header that is missing or wrong; undefined when the call may pass. */
  missingKey(api: RestrictedApi, call: HttpCall): string | undefined {
    const lock = this.#locks.get(api);
    if (lock === undefined || call.header(lock.header) === lock.value) return undefined;
    return lock.key;
  }
}
