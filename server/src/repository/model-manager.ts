/**
 * Loads and unloads models: reads folders, orders dependencies, brings new versions up beside the old, switches, drains.
 * Knows the states of the registry; how one version is built is in load-model.ts.
 */
import type { LoadOptions, ModelIndexEntry } from "../core/model-server.ts";
import { describeThrown, ServerError } from "../core/server-error.ts";
import { AgentChain, type AgentChainOptions } from "./agents/agent-chain.ts";
import { isSafeModelName } from "./beneath.ts";
import { EndingVersions } from "./ending-versions.ts";
import { loadWaves } from "./load-order.ts";
import { ambiguousName, nameOfKey, shownKey } from "./model-key.ts";
import type { LoadOrigin, ModelRecord } from "./model-record.ts";
import { ModelSources, type ModelSourcesOptions, type PolledModel } from "./model-sources.ts";
import type { ModelVersion } from "./model-version.ts";
import { forEachLimited, NamedLocks } from "./mutex.ts";
import { UNLOADED } from "./registry.ts";
import type { ModelFiles } from "./repository-place.ts";
import { VersionLoader, type VersionLoaderOptions } from "./version-loader.ts";

export interface ModelManagerOptions extends ModelSourcesOptions, VersionLoaderOptions {
  readonly loadThreads: number;
  readonly findAgent: AgentChainOptions["find"];
  /** Checks an ensemble against the models that it calls. @throws ServerError */
  readonly checkEnsemble: (model: PolledModel) => void;
}

/** A model that has passed the poll, and where it lies on this machine. */
interface FoundModel {
  readonly model: PolledModel;
  readonly files: ModelFiles;
}

export class ModelManager {
  readonly #options: ModelManagerOptions;
  readonly #sources: ModelSources;
  readonly #records = new Map<string, ModelRecord>();
  readonly #locks = new NamedLocks();
  readonly #ending: EndingVersions;
  readonly #versions: VersionLoader;

  constructor(options: ModelManagerOptions) {
    this.#options = options;
    this.#sources = new ModelSources(options);
    this.#ending = new EndingVersions(options.log);
    this.#versions = new VersionLoader(options);
  }

  /**
   * Loads the models named, or all when `names` is undefined. Returns the failures; never throws for one model.
   * @throws ServerError when a repository cannot be reached
   */
  async loadAtStart(names: readonly string[] | undefined): Promise<ReadonlyMap<string, ServerError>> {
    const failures = new Map<string, ServerError>();
    const polled = new Map<string, FoundModel>();
    await this.#sources.refresh();
    const wanted = new Set(names?.flatMap((name) => this.#sources.keysNamed(name)) ?? this.#sources.keys());
    await forEachLimited([...wanted], this.#options.loadThreads, (key) => this.#pollInto(polled, key, failures));
    const needs = (key: string): readonly string[] => polled.get(key)?.model.stepKeys ?? [];
    const { waves, circular } = loadWaves([...polled.keys()], needs);
    for (const [key, error] of circular) {
      this.#pollFailed(key, error, failures);
      await polled.get(key)?.files.release();
    }
    for (const wave of waves) {
      await forEachLimited(wave, this.#options.loadThreads, async (key) => {
        const found = polled.get(key);
        if (found !== undefined) await this.#loadInWave(found, wanted.has(key), failures);
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
    await this.#sources.tryRefresh();
    await this.loadKey(this.#sources.keyOf(name), options);
  }

  /** As `load`, for a caller that knows the repository. */
  async loadKey(key: string, options: LoadOptions): Promise<void> {
    await this.#locks.run([key], async () => {
      const files = await this.#sources.filesFor(key, options);
      try {
        const poll = (): PolledModel => this.#sources.poll(key, files, options.config);
        const model = await this.#sources.pollForClient(key, poll);
        const record = this.#records.get(key);
        if (options.config === undefined && record !== undefined && this.#isUnchanged(record, model)) {
          record.isExplicit = true;
          await files.release();
          return;
        }
        await this.#loadNeeds(model);
        await this.#sources.pollForClient(key, () => this.#options.checkEnsemble(model));
        await this.#loadPolled(model, { isExplicit: true, isOverridden: options.config !== undefined, files });
      } catch (error) {
        await files.release();
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

  /** Looks again at what is not on this machine; what cannot be reached stays as it was. */
  async refresh(): Promise<void> {
    await this.#sources.tryRefresh();
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
    await this.#sources.close();
  }

  async #pollInto(
    polled: Map<string, FoundModel>,
    key: string,
    failures: Map<string, ServerError>,
    seen = new Set<string>(),
  ): Promise<void> {
    if (seen.has(key) || polled.has(key) || failures.has(key)) return;
    seen.add(key);
    let files: ModelFiles | undefined;
    try {
      files = await this.#sources.bring(key);
      const model = this.#sources.poll(key, files, undefined);
      const other = polled.get(key); // whoever calls it was faster
      if (other === undefined) polled.set(key, { model, files });
      else await files.release();
      for (const need of model.stepKeys) {
        if (this.#sources.exists(need)) await this.#pollInto(polled, need, failures, seen);
      }
    } catch (error) {
      await files?.release();
      if (!failures.has(key)) this.#pollFailed(key, error, failures);
    }
  }

  async #loadInWave(
    { model, files }: FoundModel,
    isExplicit: boolean,
    failures: Map<string, ServerError>,
  ): Promise<void> {
    const { key } = model;
    try {
      this.#options.checkEnsemble(model);
    } catch (error) {
      this.#pollFailed(key, error, failures);
      await files.release();
      return;
    }
    await this.#loadPolled(model, { isExplicit, isOverridden: false, files }).catch(async (error: unknown) => {
      failures.set(key, ServerError.from(error));
      await files.release();
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
      record.polled.folder.origin === model.folder.origin &&
      record.polled.folder.fingerprint === model.folder.fingerprint &&
      this.#options.registry.ready(model.key).length > 0
    );
  }

  async #loadNeeds({ stepKeys }: PolledModel): Promise<void> {
    for (const need of new Set(stepKeys)) {
      if (this.#options.registry.ready(need).length > 0) continue;
      await this.#locks.run([need], async () => {
        const files = await this.#sources.pollForClient(need, () => this.#sources.bring(need));
        try {
          const model = await this.#sources.pollForClient(need, () => this.#sources.poll(need, files, undefined));
          await this.#loadNeeds(model);
          await this.#loadPolled(model, { isExplicit: false, isOverridden: false, files });
        } catch (error) {
          await files.release();
          throw error;
        }
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
    const before = this.#records.get(key);
    const loaded = await this.#versions.loadAll(model, before, origin);
    const served = new Set(this.#options.registry.ready(key));
    const keepsFiles = [...loaded.values()].some((version) => served.has(version));
    this.#releaseLater(before, this.#switch(key, loaded), keepsFiles ? [] : before?.files);
    const wasExplicit = before?.isExplicit ?? false;
    this.#records.set(key, {
      polled: model,
      isExplicit: origin.isExplicit || wasExplicit,
      isOverridden: origin.isOverridden,
      files: keepsFiles ? [...(before?.files ?? []), origin.files] : [origin.files],
      agents,
    });
    this.#options.log.info("model_lifecycle", `successfully loaded '${shownKey(key)}'`);
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

  /** The agents hear of an unload that has begun, and of its end; files go when nothing that was loaded from them is left. */
  #releaseLater(
    record: ModelRecord | undefined,
    closing: readonly Promise<void>[],
    files: readonly ModelFiles[] = [],
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
    const record = this.#records.get(key);
    this.#releaseLater(record, closing, record?.files);
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
