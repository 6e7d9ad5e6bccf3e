/** Where models lie and how their folders are read: repositories, names, what a load request brought along. Loads nothing. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { ModelConfig } from "../core/model-config.ts";
import type { LoadOptions } from "../core/model-server.ts";
import { ServerError } from "../core/server-error.ts";
import type { Logger } from "../observe/log.ts";
import { isSafeModelName } from "./beneath.ts";
import { fingerprintOf, listModels, type ModelFolder, readModelFolder } from "./model-folder.ts";
import { writeOverrideFolder } from "./override-folder.ts";

/** A model's folder with its configuration understood: it has passed the poll and may be loaded. */
export interface PolledModel {
  readonly folder: ModelFolder;
  /** As far as it is known before the model itself has been looked into. */
  readonly config: ModelConfig;
}

export interface ModelSourcesOptions {
  readonly repositoryPaths: readonly string[];
  readonly configName: string;
  readonly log: Logger;
  /** Understands a folder's configuration. @throws ServerError when the model cannot even be considered */
  readonly poll: (folder: ModelFolder, configJson: string | undefined) => PolledModel;
}

export class ModelSources {
  readonly #options: ModelSourcesOptions;

  constructor(options: ModelSourcesOptions) {
    this.#options = options;
  }

  /** Models that lie in the repositories now. */
  names(): string[] {
    return [...new Set(this.#options.repositoryPaths.flatMap(listModels))].sort();
  }

  /** Changes with any file of a model. @throws ServerError when the model is not there */
  fingerprint(name: string): string {
    return fingerprintOf(join(this.repositoryOf(name), name));
  }

  poll(name: string, repositoryPath: string, configJson: string | undefined): PolledModel {
    const folder = readModelFolder(repositoryPath, name, this.#options.configName);
    for (const warning of folder.warnings) this.#options.log.warn("model_repository", warning);
    return this.#options.poll(folder, configJson);
  }

  /** Clients get one text whatever was wrong with a model's folder; the reason goes to the log. */
  pollForClient<T>(name: string, action: () => T): T {
    try {
      return action();
    } catch (error) {
      const { message } = ServerError.from(error);
      this.#options.log.error("model_repository", `Poll failed for model directory '${name}': ${message}`);
      if (message.startsWith("Invalid config override")) throw error;
      throw new ServerError("internal", `failed to load '${name}', failed to poll from model repository`);
    }
  }

  sourceOf(name: string, options: LoadOptions): { repositoryPath: string; folder: Disposable | undefined } {
    return this.pollForClient(name, () => {
      if (options.files === undefined || options.files.size === 0) {
        return { repositoryPath: this.repositoryOf(name), folder: undefined };
      }
      if (options.config === undefined) {
        throw new ServerError("invalid_argument", "Load parameter 'config' must be specified for model file override");
      }
      const folder = writeOverrideFolder(name, options.files);
      return { repositoryPath: folder.root, folder };
    });
  }

  exists(name: string): boolean {
    return isSafeModelName(name) && this.#options.repositoryPaths.some((path) => existsSync(join(path, name)));
  }

  /** @throws ServerError when no repository, or more than one, has the model */
  repositoryOf(name: string): string {
    const found = this.#options.repositoryPaths.filter((path) => existsSync(join(path, name)));
    const [path] = found;
    if (path === undefined) {
      throw new ServerError("not_found", `failed to poll model '${name}': model not found in any model repository.`);
    }
    if (found.length > 1) {
      const text = `failed to poll model '${name}': not unique across all model repositories`;
      throw new ServerError("invalid_argument", text);
    }
    return path;
  }
}
