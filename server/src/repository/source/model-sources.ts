/**
 * Finds models and reads their folders: repositories, names, and content of load requests. Source: Triton
 * documentation, "Model Management". Loads nothing.
 */
import { statSync } from "node:fs";
import { basename, dirname } from "node:path";
import type { ModelConfig, ModelEnsemblingStep } from "../../core/model-config.ts";
import type { LoadOptions } from "../../core/model-server.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { ambiguousName, modelKey, modelKeyText, nameOfKey, namespaceOfKey } from "../model-key.ts";
import { type ModelFolder, readModelFolder } from "./model-folder.ts";
import { writeOverrideFolder } from "./override-folder.ts";
import { PlaceRefresh } from "./place-refresh.ts";
import {
  type LocalizedModel,
  type ModelMapping,
  mappedLocation,
  type RepositoryLocation,
  StoreFailure,
} from "./repository-location.ts";

/** A model folder with a parsed configuration: it passed the poll and may be loaded. */
export interface PolledModel {
  readonly key: string;
  readonly folder: ModelFolder;
  /** Configuration before auto-completion by the model itself. */
  readonly config: ModelConfig;
  /** Keys of the models that the steps of an ensemble call, per step; empty for other models. */
  readonly stepKeys: readonly string[];
  /** Configuration of the load request, in place of the file's. */
  readonly configJson: string | undefined;
  /** Configuration file's content, independent of the load request. */
  readonly agents: ModelConfig["model_repository_agents"];
}

export interface ModelSourcesOptions {
  readonly places: readonly RepositoryLocation[];
  readonly configName: string;
  /** Namespacing: equal names in several repositories are different models. */
  readonly isNamespacing: boolean;
  readonly log: Logger;
  /** Parses a folder's configuration. @throws ServerError when the model cannot be considered for loading */
  readonly poll: (folder: ModelFolder, configJson: string | undefined) => ModelConfig;
}

/** Maximum age in ms of a served index of names; an older one is refreshed for the next call. */
const MAX_INDEX_AGE_MS = 5000;

export class ModelSources {
  readonly #options: ModelSourcesOptions;
  readonly #places: RepositoryLocation[];
  readonly #refreshes = new WeakMap<RepositoryLocation, PlaceRefresh>();
  #refreshedMs = 0;
  #isRefreshing = false;

  constructor(options: ModelSourcesOptions) {
    this.#options = options;
    this.#places = [...options.places];
  }

  /** Adds a local repository at run time. @throws ServerError already_exists when it, or its mapped name, is known */
  register(path: string, mapping: ModelMapping): void {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) {
      const text = `failed to register '${path}', repository not found`;
      throw invalidArgument(text);
    }
    if (this.#places.some((place) => place.path === path)) {
      throw new ServerError("already_exists", `model repository '${path}' has already been registered`);
    }
    const { name } = mapping;
    if (this.#places.some(({ mappedName }) => mappedName === name)) {
      const text = `failed to register '${name}', there is a conflicting mapping for '${name}'`;
      throw new ServerError("already_exists", text);
    }
    this.#places.push(mappedLocation(path, mapping));
    this.#options.log.info("model_repository_manager", `Model repository registered: ${path}`);
  }

  /** Forgets a repository that was registered. @throws ServerError for an unknown one */
  unregister(path: string): void {
    const at = this.#places.findIndex((place) => place.path === path && place.mappedName !== undefined);
    if (at < 0) {
      const text = `failed to unregister '${path}', repository not found`;
      throw invalidArgument(text);
    }
    this.#places.splice(at, 1);
    this.#options.log.info("model_repository_manager", `Model repository unregistered: ${path}`);
  }

  /** Refreshes remote repositories. @throws ServerError when one is unreachable */
  async refresh(): Promise<void> {
    await Promise.all(this.#places.map((place) => place.refresh()));
    this.#refreshedMs = performance.now();
  }

  /** For calls that cannot wait: starts a refresh whose result serves the next call. */
  refreshSoon(): void {
    const isFresh = performance.now() - this.#refreshedMs < MAX_INDEX_AGE_MS;
    if (isFresh || this.#isRefreshing || !this.#places.some(({ isRemote }) => isRemote)) return;
    this.#isRefreshing = true;
    void this.tryRefresh().finally(() => {
      this.#isRefreshing = false;
    });
  }

  /**
   * As `refresh`; an unreachable repository keeps its last state, and the log says why. Waits in full for the repositories
   * that have the model `name`, or for all when none has it; for the others a moment.
   */
  async tryRefresh(name?: string): Promise<void> {
    const isKnown = name === undefined || this.#places.some((place) => place.has(name));
    await Promise.all(
      this.#places.map((place) => {
        const refresh = this.#refreshOf(place);
        const isNeeded = name !== undefined && (!isKnown || place.has(name));
        return isNeeded ? refresh.complete() : refresh.look();
      }),
    );
    this.#refreshedMs = performance.now();
  }

  #refreshOf(place: RepositoryLocation): PlaceRefresh {
    const known = this.#refreshes.get(place);
    if (known !== undefined) return known;
    const made = new PlaceRefresh(place, ({ message }) => {
      this.#options.log.error("model_repository", `cannot look at repository '${place.path}': ${message}`);
    });
    this.#refreshes.set(place, made);
    return made;
  }

  async close(): Promise<void> {
    await Promise.all(this.#places.map((place) => place.close()));
  }

  /** Models that are in the repositories now, by key. */
  keys(): string[] {
    return [...this.counts().keys()];
  }

  /** The same with the number of repositories that have the key. Sorted by it. */
  counts(): ReadonlyMap<string, number> {
    const { isNamespacing } = this.#options;
    const found = this.#places.flatMap((place) =>
      place.models().map((name) => modelKey(isNamespacing ? place.path : "", name)),
    );
    const counts = new Map<string, number>();
    for (const key of found.sort()) counts.set(key, (counts.get(key) ?? 0) + 1);
    return counts;
  }

  /** Models of a name that are in the repositories now, or the key that the first would get. */
  keysNamed(name: string): [string, ...string[]] {
    const { isNamespacing } = this.#options;
    if (!isNamespacing) return [name];
    const [first, ...more] = this.#places.filter((place) => place.has(name));
    return [modelKey((first ?? this.#places[0])?.path ?? "", name), ...more.map(({ path }) => modelKey(path, name))];
  }

  /** The one model of a name. @throws ServerError invalid_argument when there are several */
  keyOf(name: string): string {
    const [key, ...more] = this.keysNamed(name);
    if (more.length > 0) throw ambiguousName(name, more.length + 1);
    return key;
  }

  /** Changes with any file of a model. @throws ServerError when the model does not exist */
  fingerprint(key: string): string {
    return this.#placeOf(key).fingerprint(nameOfKey(key));
  }

  poll(
    key: string,
    { repositoryPath, copied, folderName }: LocalizedModel,
    configJson: string | undefined,
  ): PolledModel {
    const name = nameOfKey(key);
    const folder = this.#read(repositoryPath, folderName ?? name);
    const isMapped = folderName !== undefined && folderName !== name;
    return this.#understand(key, { ...folder, ...copied, name, isMapped }, configJson);
  }

  /** The same model in another folder, chosen by an agent. */
  pollAt(found: PolledModel, path: string): PolledModel {
    const { name, isMapped, fingerprint } = found.folder;
    const folder = this.#read(dirname(path), basename(path));
    const own = isMapped === undefined ? folder : { ...folder, isMapped };
    return this.#understand(found.key, { ...own, name, fingerprint }, found.configJson);
  }

  #read(repositoryPath: string, name: string): ModelFolder {
    const folder = readModelFolder(repositoryPath, name, this.#options.configName);
    for (const warning of folder.warnings) this.#options.log.warn("model_repository", warning);
    return folder;
  }

  #understand(key: string, folder: ModelFolder, configJson: string | undefined): PolledModel {
    const config = this.#options.poll(folder, configJson);
    const stepKeys = this.stepKeys(key, config);
    const written = configJson === undefined ? config : this.#writtenConfig(folder);
    return { key, folder, config, stepKeys, configJson, agents: written?.model_repository_agents };
  }

  /** An unreadable file does not matter to a request with its own configuration, unless the file may name agents. */
  #writtenConfig(folder: ModelFolder): ModelConfig | undefined {
    if (folder.config?.text.includes("model_repository_agents") !== true) return undefined;
    return this.#options.poll(folder, undefined);
  }

  /** Keys of the models that the steps of an ensemble call, as the repositories are now; none for any other model. */
  stepKeys(key: string, { ensemble_scheduling }: ModelConfig): string[] {
    return (ensemble_scheduling?.step ?? []).map((step) => this.#stepKey(namespaceOfKey(key), step));
  }

  /**
   * The repository that the step names, else the ensemble's own, else the only one with the model. Without any, or with
   * several, it is the ensemble's own: a model that does not exist.
   */
  #stepKey(namespace: string, { model_name: name, model_namespace: named }: ModelEnsemblingStep): string {
    if (!this.#options.isNamespacing) return name;
    if (named !== "") return modelKey(named, name);
    const own = modelKey(namespace, name);
    if (this.exists(own)) return own;
    const [other, ...more] = this.keysNamed(name);
    return more.length > 0 || !this.exists(other) ? own : other;
  }

  /** Clients get one text for any problem in a model's folder, whose reason goes to the log, and a store's own reason. */
  async pollForClient<T>(key: string, action: () => T | Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      throw this.errorForClient(key, error);
    }
  }

  errorForClient(key: string, thrown: unknown): ServerError {
    const error = ServerError.from(thrown);
    this.#options.log.error(
      "model_repository",
      `Poll failed for model directory '${modelKeyText(key)}': ${error.message}`,
    );
    const text = `failed to load '${nameOfKey(key)}', failed to poll from model repository`;
    if (!(error instanceof StoreFailure)) return new ServerError("internal", text);
    return new StoreFailure(error.code, `${text}: ${error.message}`, { cause: error });
  }

  /** Files of the load request, or else of the repository. @throws ServerError */
  filesFor(key: string, options: LoadOptions): Promise<LocalizedModel> {
    return this.pollForClient(key, () => {
      if (options.files === undefined || options.files.size === 0) return this.bring(key);
      if (options.config === undefined) {
        throw invalidArgument("Load parameter 'config' must be specified for model file override");
      }
      const folder = writeOverrideFolder(nameOfKey(key), options.files);
      const release = async (): Promise<void> => folder[Symbol.dispose]();
      return { repositoryPath: folder.root, copied: undefined, release };
    });
  }

  /** Fetches a remote model. @throws ServerError */
  bring(key: string): Promise<LocalizedModel> {
    return this.#placeOf(key).bring(nameOfKey(key));
  }

  exists(key: string): boolean {
    return this.#found(key).length > 0;
  }

  /** Several repositories have it. */
  isAmbiguous(key: string): boolean {
    return this.#found(key).length > 1;
  }

  /** @throws ServerError when no repository, or more than one, has the model */
  #placeOf(key: string): RepositoryLocation {
    const name = nameOfKey(key);
    const found = this.#found(key);
    const [place] = found;
    if (place === undefined) {
      const text = `failed to poll model '${name}': model not found in any model repository.`;
      const [failure] = this.#places.flatMap((each) => this.#refreshOf(each).failure ?? []);
      if (failure === undefined) throw new ServerError("not_found", text);
      throw new StoreFailure(failure.code, `not found where it can be looked for; ${failure.message}`, {
        cause: failure,
      });
    }
    if (found.length > 1) {
      const text = `failed to poll model '${name}': not unique across all model repositories`;
      throw invalidArgument(text);
    }
    return place;
  }

  /** Repositories that have the model; with namespacing its own or none. */
  #found(key: string): RepositoryLocation[] {
    const name = nameOfKey(key);
    const namespace = namespaceOfKey(key);
    return this.#places.filter((place) => (namespace === "" || place.path === namespace) && place.has(name));
  }
}
