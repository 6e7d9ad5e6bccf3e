/** The registry of model versions and their states. Answers lookups; loads nothing. */
import type { ModelIndexEntry } from "../core/model-server.ts";
import { ServerError } from "../core/server-error.ts";
import { canonicalVersion } from "../core/version-text.ts";
import { ambiguousName, inSeveralRepositories, modelKey, nameOfKey } from "./model-key.ts";
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
  readonly #isNamespacing: boolean;
  /** Models that were loaded or tried at least once, by key. */
  readonly #models = new Map<string, Map<number, VersionEntry>>();
  /** Why models have no version at all, by key. */
  readonly #unversioned = new Map<string, string>();
  /** With namespacing: the keys that share a name. */
  readonly #keys = new Map<string, string[]>();

  constructor(isNamespacing = false) {
    this.#isNamespacing = isNamespacing;
  }

  set(key: string, version: number, entry: VersionEntry): void {
    this.#unversioned.delete(key);
    this.#versionsOf(key).set(version, entry);
  }

  /** A model whose folder has no version to serve: known, and not ready. `reason`: as in a row of the index. */
  setUnversioned(key: string, reason: string): void {
    if (this.#versionsOf(key).size === 0) this.#unversioned.set(key, reason);
  }

  /** A user unloaded what has the name. */
  forgetUnversioned(name: string): void {
    for (const key of this.#unversioned.keys()) if (nameOfKey(key) === name) this.#unversioned.delete(key);
  }

  #versionsOf(key: string): Map<number, VersionEntry> {
    let versions = this.#models.get(key);
    if (versions === undefined) {
      versions = new Map();
      this.#models.set(key, versions);
      const name = nameOfKey(key);
      this.#keys.set(name, [...(this.#keys.get(name) ?? []), key]);
    }
    return versions;
  }

  remove(key: string, version: number): void {
    this.#models.get(key)?.delete(version);
  }

  versions(key: string): ReadonlyMap<number, VersionEntry> {
    return this.#models.get(key) ?? new Map();
  }

  isKnown(key: string): boolean {
    return this.#models.has(key);
  }

  keys(): string[] {
    return [...this.#models.keys()].sort();
  }

  /**
   * The one model of that name; the name itself when there is none. Models that a user unloaded do not make a name
   * ambiguous. @throws ServerError invalid_argument when several repositories serve the name
   */
  keyOf(name: string): string {
    if (!this.#isNamespacing) return name;
    const keys = this.#keys.get(name) ?? [];
    const used = keys.filter((key) => !this.#isUnloaded(key));
    if (used.length > 1) throw ambiguousName(name, used.length);
    return used[0] ?? keys[0] ?? name;
  }

  /** Ready versions of the model that has the name, ascending. @throws ServerError when the name is ambiguous */
  readyByName(name: string): ModelVersion[] {
    return this.ready(this.keyOf(name));
  }

  /** Ready versions of a model, ascending. */
  ready(key: string): ModelVersion[] {
    return [...this.versions(key)]
      .sort(([a], [b]) => a - b)
      .flatMap(([, { served }]) => (served === undefined ? [] : [served]));
  }

  /** Every ready version of every model. */
  *allReady(): Generator<ModelVersion> {
    for (const key of this.keys()) yield* this.ready(key);
  }

  /** The version that serves a request. @throws ServerError as the protocol words it */
  lookUp(name: string, versionText: string): ModelVersion {
    return this.lookUpKey(this.keyOf(name), versionText);
  }

  /** As `lookUp`, for a calling model: models of its own repository come first. */
  lookUpFrom(namespace: string, name: string, versionText: string): ModelVersion {
    const own = modelKey(namespace, name);
    const isOwn = this.#isNamespacing && namespace !== "" && this.#models.has(own) && !this.#isUnloaded(own);
    return isOwn ? this.lookUpKey(own, versionText) : this.lookUp(name, versionText);
  }

  /** True when some repository serves the name. */
  isServed(name: string): boolean {
    return (this.#keys.get(name) ?? []).some((key) => this.ready(key).length > 0);
  }

  /** As `lookUp`, for a caller that knows the repository. */
  lookUpKey(key: string, versionText: string): ModelVersion {
    const version = canonicalVersion(versionText);
    const versions = this.#models.get(key);
    const where = `Request for unknown model: '${nameOfKey(key)}'`;
    if (versions === undefined) {
      throw new ServerError(this.#isNamespacing ? "invalid_argument" : "not_found", `${where} is not found`);
    }
    if (version === "") {
      const latest = this.#latest(versions);
      if (latest === undefined) throw new ServerError("not_found", `${where} has no available versions`);
      return latest;
    }
    const entry = versions.get(Number(version));
    if (entry === undefined) throw new ServerError("not_found", `${where} version ${version} is not found`);
    if (entry.served === undefined) {
      throw new ServerError("unavailable", `${where} version ${version} is not at ready state`);
    }
    return entry.served;
  }

  /**
   * Rows of the repository index for one model, which `count` repositories have; a model never loaded has one row with
   * its name alone.
   */
  indexRows(key: string, count = 1): ModelIndexEntry[] {
    const versions = this.versions(key);
    const name = nameOfKey(key);
    if (count > 1) return [inSeveralRepositories(name)];
    const reason = this.#unversioned.get(key);
    if (versions.size === 0) return [reason === undefined ? { name } : { name, state: "UNAVAILABLE", reason }];
    return [...versions]
      .sort(([a], [b]) => a - b)
      .map(([version, { state, reason }]) => ({
        name,
        version: String(version),
        state,
        ...(reason === "" ? {} : { reason }),
      }));
  }

  /** Strict readiness: every model has versions, and each of them is ready or was unloaded by a user. */
  isAllReady(): boolean {
    if (this.#unversioned.size > 0) return false;
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

  #isUnloaded(key: string): boolean {
    const versions = [...this.versions(key).values()];
    return versions.every(
      ({ state, reason }) => state === "UNLOADING" || (state === "UNAVAILABLE" && reason === UNLOADED),
    );
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

/** The reason of a version that a user unloaded. */
export const UNLOADED = "unloaded";
