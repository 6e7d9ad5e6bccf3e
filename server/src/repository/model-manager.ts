/**
 * Loads and unloads models: reads folders, orders dependencies, starts new versions beside the old, switches, drains.
 * Knows the states of the registry; load-model.ts builds one version.
 */
import type { LoadOptions, ModelIndexEntry } from "../core/model-server.ts";
import { ERROR_CODE_NAMES, invalidArgument, ServerError } from "../core/server-error.ts";
import { AgentChain, type AgentChainOptions } from "./agents/agent-chain.ts";
import { DrainingVersions } from "./draining-versions.ts";
import { callersOf, EnsembleCallers, stepsText } from "./ensemble-callers.ts";
import { ComposingModels } from "./load/composing-models.ts";
import { loadWaves } from "./load/load-order.ts";
import { StartUp } from "./load/start-up.ts";
import { VersionLoader, type VersionLoaderOptions } from "./load/version-loader.ts";
import { modelKeyText, nameOfKey } from "./model-key.ts";
import type { LoadOrigin, ModelRecord } from "./model-record.ts";
import type { ModelVersion } from "./model-version.ts";
import { NamedLocks } from "./mutex.ts";
import { UNLOADED } from "./registry.ts";
import { ModelSources, type ModelSourcesOptions, type PolledModel } from "./source/model-sources.ts";
import { expectModelName } from "./source/path-containment.ts";
import type { LocalizedModel } from "./source/repository-location.ts";

export interface ModelManagerOptions extends ModelSourcesOptions, VersionLoaderOptions {
  readonly loadThreads: number;
  readonly findAgent: AgentChainOptions["find"];
  /** Checks an ensemble against the models that it calls. @throws ServerError */
  readonly checkEnsemble: (model: PolledModel) => void;
}

export class ModelManager {
  readonly #options: ModelManagerOptions;
  readonly #sources: ModelSources;
  readonly #records = new Map<string, ModelRecord>();
  readonly #locks = new NamedLocks();
  readonly #ending: DrainingVersions;
  readonly #versions: VersionLoader;
  readonly #composing: ComposingModels;
  readonly #callers = new EnsembleCallers();
  #isClosing = false;

  constructor(options: ModelManagerOptions) {
    this.#options = options;
    this.#sources = new ModelSources(options);
    this.#ending = new DrainingVersions(options.log);
    this.#versions = new VersionLoader(options);
    this.#composing = new ComposingModels({
      ...options,
      sources: this.#sources,
      locks: this.#locks,
      recordOf: (key) => this.#records.get(key),
      check: options.checkEnsemble,
      load: (model, origin) => this.#loadPolled(model, origin),
    });
  }

  /**
   * Loads the models named, or all when `names` is undefined. Returns the failures; never throws for one model.
   * @throws ServerError when a repository cannot be reached
   */
  async loadAtStart(names: readonly string[] | undefined): Promise<ReadonlyMap<string, ServerError>> {
    const loadPolled = (model: PolledModel, origin: LoadOrigin): Promise<void> => this.#loadPolled(model, origin);
    const checkEnsemble = (model: PolledModel): void => this.#checkEnsemble(model);
    const startUp = new StartUp({ ...this.#options, sources: this.#sources, checkEnsemble, loadPolled });
    const failures = await startUp.load(names);
    for (const key of failures.keys()) this.#waitForSteps(key, startUp.stepKeys(key), true);
    this.#callers.takeConcerned(this.#records); // ensembles came after their composing models
    return failures;
  }

  /** Loads or reloads the model of that name in each repository, with the models that it calls. @throws ServerError */
  async load(name: string, options: LoadOptions): Promise<void> {
    expectModelName(name);
    await this.#sources.tryRefresh(name);
    const hasFiles = options.files !== undefined && options.files.size > 0; // they are of one model
    const keys = hasFiles ? [this.#sources.keyOf(name)] : this.#sources.keysNamed(name);
    const failures: ServerError[] = [];
    for (const key of keys) {
      await this.#loadKey(key, options, false).catch((error: unknown) => failures.push(ServerError.from(error)));
    }
    await this.#followChanges();
    const [failure, ...more] = failures;
    if (failure === undefined) return;
    if (more.length === 0) throw failure;
    throw new ServerError(failure.code, failures.map(({ message }) => message).join(""), { cause: failure });
  }

  /** As `load`, for a repository poller: an ensemble that lacks a model is loaded when that model arrives. */
  async loadKey(key: string, options: LoadOptions): Promise<void> {
    await this.#loadKey(key, options, true).finally(() => this.#followChanges());
  }

  async #loadKey(key: string, options: LoadOptions, isFollowed: boolean): Promise<void> {
    await this.#locks.run([key], async () => {
      if (this.#isClosing) throw new ServerError("unavailable", "Server exiting");
      const files = await this.#sources.filesFor(key, options);
      try {
        const poll = (): PolledModel => this.#sources.poll(key, files, options.config);
        const model = await this.#sources.pollForClient(key, poll);
        const record = this.#records.get(key);
        if (options.config === undefined && record !== undefined && this.#isUnchanged(record, model)) {
          record.isExplicit = true;
          await this.#composing.load(model); // its own files are the same; those of its models may have changed
          await files.release();
          return;
        }
        if (isFollowed) this.#waitForSteps(key, model.stepKeys, true);
        await this.#fitEnsemble(model);
        await this.#loadPolled(model, { isExplicit: true, isOverridden: options.config !== undefined, files });
      } catch (error) {
        await files.release();
        throw error;
      }
    });
  }

  /** Stops serving all models of a name at once; resolves when that is done, before their last requests have ended. */
  async unload(name: string, unloadDependents: boolean): Promise<void> {
    this.#options.registry.forgetUnversioned(name);
    const known = [...this.#records.keys(), ...this.#callers.withdrawn()];
    for (const key of known.filter((loaded) => nameOfKey(loaded) === name)) {
      await this.#locks.run([key], async () => this.#unloadNow(key, unloadDependents));
    }
  }

  /** As `unload`, for one repository: ensembles that called its model turn to the one that is left of that name. */
  async unloadKey(key: string, unloadDependents: boolean): Promise<void> {
    await this.#locks.run([key], async () => this.#unloadNow(key, unloadDependents));
    if (!this.#options.registry.isServed(nameOfKey(key))) return;
    this.#callers.moved(key);
    await this.#followChanges();
  }

  index(): ModelIndexEntry[] {
    const { registry } = this.#options;
    this.#sources.refreshSoon();
    return [...this.#sources.counts()].flatMap(([key, count]) => registry.indexRows(key, count));
  }

  /** Adds and removes repositories at run time. */
  get repositories(): Pick<ModelSources, "register" | "unregister"> {
    return this.#sources;
  }

  /** Models that are in the repositories now. */
  keys(): string[] {
    return this.#sources.keys();
  }

  isAmbiguous(key: string): boolean {
    return this.#sources.isAmbiguous(key);
  }

  /** Changes with any file of a model. @throws ServerError when the model does not exist */
  fingerprint(key: string): string {
    return this.#sources.fingerprint(key);
  }

  /** Refreshes remote repositories; an unreachable one keeps its last state. */
  async refresh(): Promise<void> {
    await this.#sources.tryRefresh();
  }

  /** Fingerprint of each loaded model by key, as of its load. */
  loaded(): ReadonlyMap<string, string> {
    return new Map([...this.#records].map(([key, { polled }]) => [key, polled.folder.fingerprint]));
  }

  /** Unloads everything, callers before callees, and waits for it; also what is being loaded, which no request may wait for any more. */
  async close(): Promise<void> {
    this.#isClosing = true;
    const needs = (key: string): readonly string[] => this.#records.get(key)?.polled.stepKeys ?? [];
    do {
      for (const wave of [...loadWaves([...this.#records.keys()], needs).waves].reverse()) {
        for (const key of wave) this.#retire(key);
        await this.#ending.settled();
      }
      await this.#locks.idle();
    } while (this.#records.size > 0);
    await this.#ending.settled();
    await this.#sources.close();
  }

  #isUnchanged(record: ModelRecord, model: PolledModel): boolean {
    return (
      record.polled.folder.origin === model.folder.origin &&
      record.polled.folder.fingerprint === model.folder.fingerprint &&
      this.#options.registry.ready(model.key).length > 0
    );
  }

  /** Loads the models that an ensemble calls, and checks that it fits them. @throws ServerError in Triton's words */
  async #fitEnsemble(model: PolledModel): Promise<void> {
    try {
      await this.#composing.load(model);
      this.#checkEnsemble(model);
    } catch (thrown) {
      const { message } = ServerError.from(thrown);
      this.#options.log.error("model_repository", message);
      throw invalidArgument(`load failed for model '${modelKeyText(model.key)}': ${message}\n`);
    }
  }

  /** @throws ServerError */
  #checkEnsemble(model: PolledModel): void {
    this.#composing.expectSteps(model);
    this.#options.checkEnsemble(model);
  }

  /** Calls the agents, then loads the model. */
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

  /** @throws ServerError when an agent refuses the model, or relocated it to an unreadable folder */
  async #admit(found: PolledModel): Promise<{ agents: AgentChain; model: PolledModel }> {
    const { findAgent: find, log } = this.#options;
    const { name, path } = found.folder;
    try {
      const agents = await AgentChain.load({ find, log }, { name, model_repository_agents: found.agents }, path);
      const moved = await agents.readMoved(path, (folder) => this.#sources.pollAt(found, folder));
      return { agents, model: moved ?? found };
    } catch (error) {
      throw this.#sources.errorForClient(found.key, error);
    }
  }

  /** Loads all selected versions, then switches. On failure the old versions keep serving. */
  async #bringUp(model: PolledModel, origin: LoadOrigin, agents: AgentChain): Promise<void> {
    const { key } = model;
    const before = this.#records.get(key);
    const loaded = await this.#versions.loadAll(model, before, origin);
    const served = new Set(this.#options.registry.ready(key));
    const isKept = loaded.size > 0 && [...loaded.values()].every((version) => served.has(version));
    if (isKept) await origin.files?.release(); // nothing was loaded from them
    const files = isKept ? undefined : origin.files;
    const keepsFiles = files === undefined || [...loaded.values()].some((version) => served.has(version));
    this.#releaseLater(before, this.#switch(key, loaded), keepsFiles ? [] : before?.files);
    const wasExplicit = before?.isExplicit ?? false;
    this.#records.set(key, {
      polled: model,
      isExplicit: origin.isExplicit || wasExplicit,
      isOverridden: origin.isOverridden,
      files: [...(keepsFiles ? (before?.files ?? []) : []), ...(files === undefined ? [] : [files])],
      stepsText: stepsText(model.stepKeys, (need) => this.#options.registry.ready(need)),
      agents,
    });
    this.#callers.changed(key);
    this.#options.log.info("model_lifecycle", `successfully loaded '${modelKeyText(key)}'`);
  }

  /** Resolves when the old versions have drained. */
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

  /** Notifies the agents of an unload and of its end; fetched files are released when no version needs them. */
  #releaseLater(
    record: ModelRecord | undefined,
    closing: readonly Promise<void>[],
    files: readonly LocalizedModel[] = [],
  ): void {
    if (record === undefined) return;
    const { agents } = record;
    const release = async (): Promise<void> => {
      await Promise.all([agents.tell("unload"), ...closing]);
      for (const each of files) await each.release();
      await agents.tell("unloadComplete");
    };
    void this.#ending.track(release());
  }

  async #unloadNow(key: string, unloadDependents: boolean): Promise<void> {
    const record = this.#records.get(key);
    if (this.#callers.forget(key)) this.#setUnloaded(key);
    if (record === undefined) return;
    for (const caller of callersOf(key, this.#records)) this.#withdraw(caller);
    this.#retire(key);
    if (!unloadDependents) return;
    for (const need of new Set(record.polled.stepKeys)) {
      const needed = this.#records.get(need);
      if (needed === undefined || needed.isExplicit || callersOf(need, this.#records).length > 0) continue;
      await this.#locks.run([need], async () => this.#unloadNow(need, true));
    }
  }

  /** After loads: updates the ensembles that call these models, directly or indirectly. */
  async #followChanges(): Promise<void> {
    while (!this.#isClosing) {
      const concerned = this.#callers.takeConcerned(this.#records);
      if (concerned.length === 0) return;
      for (const caller of concerned) await this.#locks.run([caller], () => this.#follow(caller));
    }
  }

  /** Never rejects: the load succeeded, so an ensemble's failure goes to the log and the index. */
  async #follow(key: string): Promise<void> {
    const record = this.#records.get(key);
    try {
      if (record === undefined) await this.#bringBack(key);
      else await this.#renew(record);
    } catch (thrown) {
      const error = ServerError.from(thrown);
      const text = `ensemble '${modelKeyText(key)}' does not fit the models that it calls any more: ${error.message}`;
      this.#options.log.error("model_lifecycle", text);
      for (const caller of record === undefined ? [] : [...callersOf(key, this.#records), key]) {
        this.#withdraw(caller, `${ERROR_CODE_NAMES[error.code]}: ${error.message}`);
      }
    }
  }

  /** Checks a loaded ensemble, and rebuilds it from the same files when its plan has changed. */
  async #renew({ polled: before, isExplicit, isOverridden, stepsText: textBefore }: ModelRecord): Promise<void> {
    const polled = { ...before, stepKeys: this.#sources.stepKeys(before.key, before.config) };
    this.#checkEnsemble(polled);
    if (textBefore === stepsText(polled.stepKeys, (need) => this.#options.registry.ready(need))) return;
    await this.#loadPolled(polled, { isExplicit, isOverridden, files: undefined });
  }

  /** Retries a withdrawn ensemble: the models that it lacked may be loaded again. */
  async #bringBack(key: string): Promise<void> {
    const isExplicit = this.#callers.wasExplicit(key);
    if (isExplicit === undefined) return;
    if (!this.#sources.exists(key)) {
      this.#callers.forget(key);
      return;
    }
    const files = await this.#sources.bring(key);
    try {
      const model = this.#sources.poll(key, files, undefined);
      this.#checkEnsemble(model);
      await this.#loadPolled(model, { isExplicit, isOverridden: false, files });
    } catch (error) {
      await files.release();
      throw error;
    }
  }

  /** Waits for an ensemble to become available. */
  #waitForSteps(key: string, stepKeys: readonly string[], isExplicit: boolean): void {
    if (stepKeys.length > 0 && !this.#records.has(key)) this.#callers.wait(key, stepKeys, isExplicit);
  }

  /** Withdraws it until the models that it calls exist and fit. */
  #withdraw(key: string, reason = UNLOADED): void {
    const record = this.#records.get(key);
    if (record === undefined) return;
    this.#retire(key, reason);
    this.#callers.wait(key, record.polled.stepKeys, record.isExplicit);
  }

  #setUnloaded(key: string): void {
    const { registry } = this.#options;
    for (const [version, { served, state }] of registry.versions(key)) {
      if (served === undefined && state === "UNAVAILABLE") registry.set(key, version, { state, reason: UNLOADED });
    }
  }

  #retire(key: string, reason = UNLOADED): void {
    const { registry } = this.#options;
    const closing: Promise<void>[] = [];
    for (const [version, { served }] of registry.versions(key)) {
      if (served !== undefined) closing.push(this.#retireVersion(key, version, served, reason));
    }
    const record = this.#records.get(key);
    this.#releaseLater(record, closing, record?.files);
    this.#records.delete(key);
  }

  #retireVersion(key: string, version: number, served: ModelVersion, reason = UNLOADED): Promise<void> {
    const { registry, log } = this.#options;
    log.info("model_lifecycle", `unloading: ${modelKeyText(key)}:${version}`);
    const unloading = { state: "UNLOADING", reason: "" } as const;
    registry.set(key, version, unloading);
    return this.#ending.close(served, () => {
      log.info("model_lifecycle", `successfully unloaded '${modelKeyText(key)}' version ${version}`);
      if (registry.versions(key).get(version) !== unloading) return; // loaded again meanwhile
      registry.set(key, version, { state: "UNAVAILABLE", reason });
    });
  }
}
