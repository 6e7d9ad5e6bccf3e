/**
 * Lists, loads and unloads models (Triton's model repository extension, docs/protocol/extension_model_repository.md).
 * The server must run with explicit model control.
 */
import type { CallOptions } from "./call-options.ts";
import type { InferenceApi, LoadRequest } from "./inference-api.ts";
import type { RepositoryEntry } from "./metadata.ts";

export interface IndexOptions extends CallOptions {
  /** Only ready models. */
  readonly isReady?: boolean | undefined;
}

export interface LoadOptions extends CallOptions, LoadRequest {}

export interface UnloadOptions extends CallOptions {
  /** Also unloads models that only this ensemble needs. */
  readonly unloadDependents?: boolean | undefined;
}

export class RepositoryClient {
  readonly #api: InferenceApi;

  constructor(api: InferenceApi) {
    this.#api = api;
  }

  index(options: IndexOptions = {}): Promise<readonly RepositoryEntry[]> {
    return this.#api.repositoryIndex(options.isReady, options);
  }

  /** Resolves when the model is ready. @throws ClientError with the reason if it fails */
  load(name: string, options: LoadOptions = {}): Promise<void> {
    return this.#api.loadModel(name, options, options);
  }

  unload(name: string, options: UnloadOptions = {}): Promise<void> {
    return this.#api.unloadModel(name, options.unloadDependents, options);
  }
}
