/** Which versions of which models exist and in what state. Answers look-ups; loads nothing. */
import type { ModelIndexEntry } from "../core/model-server.ts";
import { ServerError } from "../core/server-error.ts";
import type { ModelVersion } from "./model-version.ts";

export type VersionState = "LOADING" | "READY" | "UNLOADING" | "UNAVAILABLE";

export interface VersionEntry {
  readonly state: VersionState;
  /** Why it is not ready; "" when it is. */
  readonly reason: string;
  /** Present while READY. */
  readonly served?: ModelVersion;
}

export class ModelRegistry {
  /** Models that were loaded or tried at least once. */
  readonly #models = new Map<string, Map<number, VersionEntry>>();

  set(model: string, version: number, entry: VersionEntry): void {
    let versions = this.#models.get(model);
    if (versions === undefined) {
      versions = new Map();
      this.#models.set(model, versions);
    }
    versions.set(version, entry);
  }

  remove(model: string, version: number): void {
    this.#models.get(model)?.delete(version);
  }

  versions(model: string): ReadonlyMap<number, VersionEntry> {
    return this.#models.get(model) ?? new Map();
  }

  isKnown(model: string): boolean {
    return this.#models.has(model);
  }

  names(): string[] {
    return [...this.#models.keys()].sort();
  }

  /** Ready versions of a model, ascending. */
  ready(model: string): ModelVersion[] {
    return [...this.versions(model)]
      .sort(([a], [b]) => a - b)
      .flatMap(([, { served }]) => (served === undefined ? [] : [served]));
  }

  /** Every ready version of every model. */
  *allReady(): Generator<ModelVersion> {
    for (const name of this.names()) yield* this.ready(name);
  }

  /** The version that serves a request. @throws ServerError as the protocol words it */
  lookUp(model: string, versionText: string): ModelVersion {
    const versions = this.#models.get(model);
    const where = `Request for unknown model: '${model}'`;
    if (versions === undefined) throw new ServerError("not_found", `${where} is not found`);
    if (versionText === "") {
      const latest = this.#latest(versions);
      if (latest === undefined) throw new ServerError("not_found", `${where} has no available versions`);
      return latest;
    }
    const version = parseVersion(versionText);
    const entry = versions.get(version);
    if (entry === undefined) throw new ServerError("not_found", `${where} version ${version} is not found`);
    if (entry.served === undefined) {
      throw new ServerError("unavailable", `${where} version ${version} is not at ready state`);
    }
    return entry.served;
  }

  /** Rows of the index for one model; a model never tried has one row with its name alone. */
  indexRows(model: string): ModelIndexEntry[] {
    const versions = this.versions(model);
    if (versions.size === 0) return [{ name: model }];
    return [...versions]
      .sort(([a], [b]) => a - b)
      .map(([version, { state, reason }]) => ({
        name: model,
        version: String(version),
        state,
        ...(reason === "" ? {} : { reason }),
      }));
  }

  /** Strict readiness: every version is ready, or unloaded on purpose. */
  isAllReady(): boolean {
    for (const versions of this.#models.values()) {
      for (const { state, reason, served } of versions.values()) {
        if (state === "READY" && served?.isHealthy() === true) continue;
        if (state === "UNAVAILABLE" && reason === UNLOADED) continue;
        if (state === "UNLOADING") continue;
        return false;
      }
    }
    return true;
  }

  #latest(versions: ReadonlyMap<number, VersionEntry>): ModelVersion | undefined {
    let best: ModelVersion | undefined;
    let bestVersion = -1;
    for (const [version, { served }] of versions) {
      if (served !== undefined && version > bestVersion) {
        best = served;
        bestVersion = version;
      }
    }
    return best;
  }
}

/** The reason of a version that was unloaded on purpose. */
export const UNLOADED = "unloaded";

const MAX_INT64 = 2n ** 63n - 1n;

/** @throws ServerError invalid_argument when the text is no 64-bit integer */
export function parseVersion(text: string): number {
  if (/^[+-]?[0-9]+$/.test(text) && BigInt(text) <= MAX_INT64 && BigInt(text) >= -MAX_INT64) return Number(text);
  throw new ServerError(
    "invalid_argument",
    `failed to get model version from specified version string '${text}' (details: stol), version should be an integral value > 0`,
  );
}
