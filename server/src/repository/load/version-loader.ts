/**
 * Loads the requested versions of a model: keeps unchanged ones and loads the others, all or none. Does not switch
 * traffic.
 */
import { describeThrown, ERROR_CODE_NAMES, invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { modelKeyText, nameOfKey } from "../model-key.ts";
import type { LoadOrigin, ModelRecord } from "../model-record.ts";
import type { ModelVersion } from "../model-version.ts";
import { type ModelRegistry, UNLOADED } from "../registry.ts";
import { compareVersion } from "../same-version.ts";
import type { PolledModel } from "../source/model-sources.ts";
import { selectVersions } from "../source/version-policy.ts";

export interface VersionLoaderOptions {
  readonly registry: ModelRegistry;
  readonly log: Logger;
  readonly loadRetries: number;
  /**
   * Updates a served version in place, when its files are unchanged; false when a reload is needed. @throws ServerError
   */
  readonly update: (served: ModelVersion, model: PolledModel) => Promise<boolean>;
  /** Builds one version, ready to serve. @throws ServerError */
  readonly load: (model: PolledModel, version: number) => Promise<ModelVersion>;
}

export class VersionLoader {
  readonly #options: VersionLoaderOptions;

  constructor(options: VersionLoaderOptions) {
    this.#options = options;
  }

  /** `record` describes what is served. @throws ServerError when one version fails: none of the new ones remains */
  async loadAll(
    model: PolledModel,
    record: ModelRecord | undefined,
    origin: LoadOrigin,
  ): Promise<ReadonlyMap<number, ModelVersion>> {
    const loaded = new Map<number, ModelVersion>();
    const failed = new Map<number, ServerError>();
    for (const version of this.#selected(model)) {
      try {
        const kept = await this.#keptVersion(model, version, record, origin);
        loaded.set(version, kept ?? (await this.#loadVersion(model, version)));
      } catch (error) {
        failed.set(version, ServerError.from(error));
      }
    }
    if (failed.size > 0) await this.#abandon(model.key, loaded, failed);
    return loaded;
  }

  /** @throws ServerError when there is none */
  #selected({ key, folder, config }: PolledModel): readonly number[] {
    const { selected, missing } = selectVersions(folder.versions, config.version_policy);
    for (const version of missing) {
      this.#options.log.error(
        "model_repository",
        `version ${version} is specified for model '${modelKeyText(key)}', but the version directory is not present`,
      );
    }
    if (selected.length > 0) return selected;
    const error = invalidArgument(
      `at least one version must be available under the version policy of model '${nameOfKey(key)}'`,
    );
    this.#options.registry.setUnversioned(key, `${ERROR_CODE_NAMES[error.code]}: ${error.message}`);
    throw error;
  }

  /** The version that is already served, when nothing relevant changed except its instances. */
  async #keptVersion(
    model: PolledModel,
    version: number,
    record: ModelRecord | undefined,
    origin: LoadOrigin,
  ): Promise<ModelVersion | undefined> {
    const served = this.#options.registry.versions(model.key).get(version)?.served;
    if (record === undefined || served?.isHealthy() !== true) return;
    const { hasSameFiles, hasSameConfigFile } = compareVersion(record.polled, model, version);
    if (!hasSameFiles) return;
    const isSame = hasSameConfigFile && !origin.isOverridden && !record.isOverridden;
    return isSame || (await this.#options.update(served, model)) ? served : undefined;
  }

  async #loadVersion(model: PolledModel, version: number): Promise<ModelVersion> {
    const { log, registry, loadRetries } = this.#options;
    const { key } = model;
    log.info("model_lifecycle", `loading: ${modelKeyText(key)}:${version}`);
    if (registry.versions(key).get(version)?.served === undefined) {
      registry.set(key, version, { state: "LOADING", reason: "" });
    }
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#options.load(model, version);
      } catch (thrown) {
        const error = ServerError.from(thrown);
        if (!(thrown instanceof ServerError)) log.error("model_lifecycle", describeThrown(thrown));
        log.error(
          "model_lifecycle",
          `failed to load '${modelKeyText(key)}' version ${version}: ${ERROR_CODE_NAMES[error.code]}: ${error.message}`,
        );
        if (attempt >= loadRetries) throw error;
      }
    }
  }

  /** One version failed: closes all new ones. @throws always */
  async #abandon(
    key: string,
    loaded: ReadonlyMap<number, ModelVersion>,
    failed: ReadonlyMap<number, ServerError>,
  ): Promise<never> {
    const { registry } = this.#options;
    const served = new Set(registry.ready(key));
    const unused = [...loaded.values()].filter((version) => !served.has(version));
    await Promise.all(unused.map((version) => version.close()));
    let text = "";
    for (const version of [...loaded.keys(), ...failed.keys()].sort((a, b) => a - b)) {
      const error = failed.get(version);
      const reason = error === undefined ? UNLOADED : `${ERROR_CODE_NAMES[error.code]}: ${error.message}`;
      if (error !== undefined) text += `version ${version} is at UNAVAILABLE state: ${reason};`;
      if (registry.versions(key).get(version)?.served !== undefined) continue;
      registry.set(key, version, { state: "UNAVAILABLE", reason });
    }
    throw invalidArgument(`load failed for model '${nameOfKey(key)}': ${text}\n`);
  }
}
