/**
 * Loads and unloads models: reads folders, orders dependencies, brings new versions up beside the old, switches, drains.
 * Knows the states of the registry; how one version is built is in load-model.ts.
 */
import type { LoadOptions, ModelIndexEntry } from "../core/model-server.ts";
import { describeThrown, ERROR_CODE_NAMES, ServerError } from "../core/server-error.ts";
import { AgentChain, type AgentChainOptions } from "./agents/agent-chain.ts";
import { isSafeModelName } from "./beneath.ts";
import { EndingVersions } from "./ending-versions.ts";
import { loadWaves } from "./load-order.ts";
import { ambiguousName, nameOfKey, shownKey } from "./model-key.ts";
import type { LoadOrigin, ModelRecord } from "./model-record.ts";
import { ModelSources, type ModelSourcesOptions, type PolledModel } from "./model-sources.ts";
import type { ModelVersion } from "./model-version.ts";
import { forEachLimited, NamedLocks } from "./mutex.ts";
import { type ModelRegistry, UNLOADED } from "./registry.ts";
import { compareVersion } from "./same-version.ts";
import { selectVersions } from "./version-policy.ts";

export interface ModelManagerOptions extends ModelSourcesOptions {
  readonly loadThreads: number;
  readonly loadRetries: number;
  readonly registry: ModelRegistry;
  readonly findAgent: AgentChainOptions["find"];
  /** Checks an ensemble against the models that it calls. @throws ServerError */
  readonly checkEnsemble: (model: PolledModel) => void;
  /** Changes a served version in place, whose files are as before; false when it has to be loaded anew. @throws ServerError */
  readonly update: (served: ModelVersion, model: PolledModel) => Promise<boolean>;
  /** Builds one version, ready to serve. @throws ServerError */
  readonly load: (model: PolledModel, version: number) => Promise<ModelVersion>;
}

export class ModelManager {
  readonly #options: ModelManagerOptions;
  readonly #sources: ModelSources;
  readonly #records = new Map<string, ModelRecord>();
  readonly #locks = new NamedLocks();
  readonly #ending: EndingVersions;

  constructor(options: ModelManagerOptions) {
    this.#options = options;
    this.#sources = new ModelSources(options);
    this.#ending = new EndingVersions(options.log);
  }

  /** Loads the models named, or all when `names` is undefined. Returns the failures; never throws for one model. */
  async loadAtStart(names: readonly string[] | undefined): Promise<ReadonlyMap<string, ServerError>> {
    const failures = new Map<string, ServerError>();
    const polled = new Map<string, PolledModel>();
    const wanted = new Set(names?.flatMap((name) => this.#sources.keysNamed(name)) ?? this.#sources.keys());
    for (const key of wanted) this.#pollInto(polled, key, failures);
    const needs = (key: string): readonly string[] => polled.get(key)?.stepKeys ?? [];
    const { waves, circular } = loadWaves([...polled.keys()], needs);
    for (const [key, error] of circular) this.#pollFailed(key, error, failures);
    for (const wave of waves) {
      await forEachLimited(wave, this.#options.loadThreads, async (key) => {
        const model = polled.get(key);
        if (model === undefined) return;
        await this.#loadInWave(model, wanted.has(key), failures);
      });
    }
    return failures;
  }

  /** Loads or reloads one model, with the models that it calls. @throws ServerError */
  async load(name: string, options: LoadOptions): Promise<void> {
    if (name === "") {
      const text = "Model name cannot be empty. Please enter a valid name to deploy.";
      throw new ServerError("invalid_argument", text);
    }
    if (!isSafeModelName(name)) {
      const text = `invalid model name '${name}', model name must not contain path traversal characters`;
      throw new ServerError("invalid_argument", text);
    }
    await this.loadKey(this.#sources.keyOf(name), options);
  }

  /** As `load`, for a caller that knows the repository. */
  async loadKey(key: string, options: LoadOptions): Promise<void> {
    await this.#locks.run([key], async () => {
      const source = this.#sources.sourceOf(key, options);
      try {
        const model = this.#sources.pollForClient(key, () =>
          this.#sources.poll(key, source.repositoryPath, options.config),
        );
        const record = this.#records.get(key);
        if (options.config === undefined && record !== undefined && this.#isUnchanged(record, model)) {
          record.isExplicit = true;
          source.folder?.[Symbol.dispose]();
          return;
        }
        await this.#loadNeeds(model);
        this.#sources.pollForClient(key, () => this.#options.checkEnsemble(model));
        await this.#loadPolled(model, {
          isExplicit: true,
          isOverridden: options.config !== undefined,
          folder: source.folder,
        });
      } catch (error) {
        source.folder?.[Symbol.dispose]();
        throw error;
      }
    });
  }

  /** Takes a model out of service at once; resolves when that is done, not when its last request has ended. */
  async unload(name: string, unloadDependents: boolean): Promise<void> {
    const [key, ...more] = [...this.#records.keys()].filter((loaded) => nameOfKey(loaded) === name);
    if (key === undefined) return;
    if (more.length > 0) throw ambiguousName(name, more.length + 1);
    await this.unloadKey(key, unloadDependents);
  }

  /** As `unload`, for a caller that knows the repository. */
  async unloadKey(key: string, unloadDependents: boolean): Promise<void> {
    await this.#locks.run([key], async () => this.#unloadNow(key, unloadDependents));
  }

  index(): ModelIndexEntry[] {
    const { registry } = this.#options;
    return this.#sources.keys().flatMap((key) => registry.indexRows(key));
  }

  /** Models that lie in the repositories now. */
  keys(): string[] {
    return this.#sources.keys();
  }

  /** Changes with any file of a model. @throws ServerError when the model is not there */
  fingerprint(key: string): string {
    return this.#sources.fingerprint(key);
  }

  loadedKeys(): string[] {
    return [...this.#records.keys()];
  }

  /** Unloads everything, callers before callees, and waits for it. */
  async close(): Promise<void> {
    const needs = (key: string): readonly string[] => this.#records.get(key)?.polled.stepKeys ?? [];
    for (const wave of [...loadWaves([...this.#records.keys()], needs).waves].reverse()) {
      for (const key of wave) this.#retire(key);
      await this.#ending.settled();
    }
    await this.#ending.settled();
  }

  #pollInto(polled: Map<string, PolledModel>, key: string, failures: Map<string, ServerError>): void {
    if (polled.has(key) || failures.has(key)) return;
    try {
      const model = this.#sources.poll(key, this.#sources.repositoryOf(key), undefined);
      polled.set(key, model);
      for (const need of model.stepKeys) {
        if (this.#sources.exists(need)) this.#pollInto(polled, need, failures);
      }
    } catch (error) {
      this.#pollFailed(key, error, failures);
    }
  }

  async #loadInWave(model: PolledModel, isExplicit: boolean, failures: Map<string, ServerError>): Promise<void> {
    const { key } = model;
    try {
      this.#options.checkEnsemble(model);
    } catch (error) {
      this.#pollFailed(key, error, failures);
      return;
    }
    await this.#loadPolled(model, { isExplicit, isOverridden: false, folder: undefined }).catch((error: unknown) => {
      failures.set(key, ServerError.from(error));
    });
  }

  #pollFailed(key: string, thrown: unknown, failures: Map<string, ServerError>): void {
    const error = ServerError.from(thrown);
    const detail = thrown instanceof ServerError ? error.message : describeThrown(thrown);
    this.#options.log.error("model_repository", `Poll failed for model directory '${shownKey(key)}': ${detail}`);
    failures.set(key, error);
  }

  #isUnchanged(record: ModelRecord, model: PolledModel): boolean {
    return (
      !record.isOverridden &&
      record.polled.folder.fingerprint === model.folder.fingerprint &&
      this.#options.registry.ready(model.key).length > 0
    );
  }

  async #loadNeeds({ stepKeys }: PolledModel): Promise<void> {
    for (const need of new Set(stepKeys)) {
      if (this.#options.registry.ready(need).length > 0) continue;
      await this.#locks.run([need], async () => {
        const model = this.#sources.pollForClient(need, () =>
          this.#sources.poll(need, this.#sources.repositoryOf(need), undefined),
        );
        await this.#loadNeeds(model);
        await this.#loadPolled(model, { isExplicit: false, isOverridden: false, folder: undefined });
      });
    }
  }

  /** Asks the agents, then brings the model up. */
  async #loadPolled(found: PolledModel, origin: LoadOrigin): Promise<void> {
    const { agents, model } = await this.#admit(found);
    try {
      await this.#bringUp(model, origin, agents);
    } catch (error) {
      await agents.tell("loadFail");
      throw error;
    }
    await agents.tell("loadComplete");
  }

  /** @throws ServerError when an agent refuses the model, or has put something unreadable in its place */
  async #admit(found: PolledModel): Promise<{ agents: AgentChain; model: PolledModel }> {
    const { findAgent: find, log } = this.#options;
    const { name, path } = found.folder;
    try {
      const agents = await AgentChain.load({ find, log }, { name, model_repository_agents: found.agents }, path);
      return { agents, model: agents.folder === path ? found : this.#sources.pollAt(found, agents.folder) };
    } catch (error) {
      throw this.#sources.errorForClient(found.key, error);
    }
  }

  /** Brings all selected versions up, then switches. What served before goes on serving when one fails. */
  async #bringUp(model: PolledModel, origin: LoadOrigin, agents: AgentChain): Promise<void> {
    const { key } = model;
    const { selected, missing } = selectVersions(model.folder.versions, model.config.version_policy);
    for (const version of missing) {
      this.#options.log.error(
        "model_repository",
        `version ${version} is specified for model '${shownKey(key)}', but the version directory is not present`,
      );
    }
    if (selected.length === 0) {
      const text = `at least one version must be available under the version policy of model '${nameOfKey(key)}'`;
      throw new ServerError("invalid_argument", text);
    }
    const loaded = new Map<number, ModelVersion>();
    const failed = new Map<number, ServerError>();
    for (const version of selected) {
      try {
        loaded.set(
          version,
          (await this.#keptVersion(model, version, origin)) ?? (await this.#loadVersion(model, version)),
        );
      } catch (error) {
        failed.set(version, ServerError.from(error));
      }
    }
    if (failed.size > 0) await this.#abandon(key, loaded, failed, origin.folder);
    const before = this.#records.get(key);
    this.#releaseLater(before, this.#switch(key, loaded));
    before?.overrideFolder?.[Symbol.dispose]();
    const wasExplicit = before?.isExplicit ?? false;
    this.#records.set(key, {
      polled: model,
      isExplicit: origin.isExplicit || wasExplicit,
      isOverridden: origin.isOverridden,
      overrideFolder: origin.folder,
      agents,
    });
    this.#options.log.info("model_lifecycle", `successfully loaded '${shownKey(key)}'`);
  }

  /** The version that is served already, when nothing that matters to it has changed, or only its instances. */
  async #keptVersion(model: PolledModel, version: number, origin: LoadOrigin): Promise<ModelVersion | undefined> {
    const served = this.#options.registry.versions(model.key).get(version)?.served;
    const record = this.#records.get(model.key);
    if (record === undefined || served?.isHealthy() !== true || origin.isOverridden || record.isOverridden) return;
    const { hasSameFiles, hasSameConfigFile } = compareVersion(record.polled, model, version);
    if (!hasSameFiles) return;
    return hasSameConfigFile || (await this.#options.update(served, model)) ? served : undefined;
  }

  async #loadVersion(model: PolledModel, version: number): Promise<ModelVersion> {
    const { log, registry, loadRetries } = this.#options;
    const { key } = model;
    log.info("model_lifecycle", `loading: ${shownKey(key)}:${version}`);
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
          `failed to load '${shownKey(key)}' version ${version}: ${ERROR_CODE_NAMES[error.code]}: ${error.message}`,
        );
        if (attempt >= loadRetries) throw error;
      }
    }
  }

  /** Some version failed: none of the new ones serves. @throws always */
  async #abandon(
    key: string,
    loaded: ReadonlyMap<number, ModelVersion>,
    failed: ReadonlyMap<number, ServerError>,
    overrideFolder: Disposable | undefined,
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
    overrideFolder?.[Symbol.dispose]();
    throw new ServerError("invalid_argument", `load failed for model '${nameOfKey(key)}': ${text}\n`);
  }

  /** Gives the ends of what served before. */
  #switch(key: string, loaded: ReadonlyMap<number, ModelVersion>): Promise<void>[] {
    const { registry } = this.#options;
    const closing: Promise<void>[] = [];
    const before = new Map(registry.versions(key));
    for (const [version, served] of loaded) registry.set(key, version, { state: "READY", reason: "", served });
    for (const [version, { served }] of before) {
      if (loaded.has(version)) {
        if (served !== undefined && served !== loaded.get(version)) closing.push(this.#ending.close(served));
      } else if (served !== undefined) {
        closing.push(this.#retireVersion(key, version, served));
      }
    }
    return closing;
  }

  /** The agents hear of an unload that has begun, and of its end. */
  #releaseLater(record: ModelRecord | undefined, closing: readonly Promise<void>[]): void {
    if (record === undefined) return;
    const { agents } = record;
    void this.#ending.track(Promise.all([agents.tell("unload"), ...closing]).then(() => agents.tell("unloadComplete")));
  }

  async #unloadNow(key: string, unloadDependents: boolean): Promise<void> {
    const record = this.#records.get(key);
    if (record === undefined) return;
    for (const caller of this.#callersOf(key)) this.#retire(caller);
    this.#retire(key);
    if (!unloadDependents) return;
    for (const need of new Set(record.polled.stepKeys)) {
      const needed = this.#records.get(need);
      if (needed === undefined || needed.isExplicit || this.#callersOf(need).length > 0) continue;
      await this.#locks.run([need], async () => this.#unloadNow(need, true));
    }
  }

  /** Loaded ensembles that call a model, directly or through others; callers of callers first. */
  #callersOf(key: string): string[] {
    const direct = [...this.#records].filter(([, { polled }]) => polled.stepKeys.includes(key));
    return direct.flatMap(([caller]) => [...this.#callersOf(caller), caller]);
  }

  #retire(key: string): void {
    const { registry } = this.#options;
    const closing: Promise<void>[] = [];
    for (const [version, { served }] of registry.versions(key)) {
      if (served !== undefined) closing.push(this.#retireVersion(key, version, served));
    }
    this.#releaseLater(this.#records.get(key), closing);
    this.#records.get(key)?.overrideFolder?.[Symbol.dispose]();
    this.#records.delete(key);
  }

  #retireVersion(key: string, version: number, served: ModelVersion): Promise<void> {
    const { registry, log } = this.#options;
    log.info("model_lifecycle", `unloading: ${shownKey(key)}:${version}`);
    const unloading = { state: "UNLOADING", reason: "" } as const;
    registry.set(key, version, unloading);
    return this.#ending.close(served, () => {
      log.info("model_lifecycle", `successfully unloaded '${shownKey(key)}' version ${version}`);
      if (registry.versions(key).get(version) !== unloading) return; // loaded again meanwhile
      registry.set(key, version, { state: "UNAVAILABLE", reason: UNLOADED });
    });
  }
}
