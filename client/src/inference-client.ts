/**
 * The parts of a client that do not depend on its protocol: health, metadata, and the groups of calls. Source: Open
 * Inference Protocol, "Health" and "Server Metadata".
 */
import type { CallOptions } from "./call-options.ts";
import type { InferenceApi } from "./inference-api.ts";
import type { ModelStatistics, ServerMetadata } from "./metadata.ts";
import { RepositoryClient } from "./repository-client.ts";
import { SettingsClient } from "./settings-client.ts";
import { SharedMemoryClient } from "./shared-memory-client.ts";

export class InferenceClient {
  readonly repository: RepositoryClient;
  readonly sharedMemory: SharedMemoryClient;
  readonly settings: SettingsClient;
  readonly #api: InferenceApi;

  constructor(api: InferenceApi) {
    this.#api = api;
    this.repository = new RepositoryClient(api);
    this.sharedMemory = new SharedMemoryClient(api);
    this.settings = new SettingsClient(api);
  }

  /** Whether the server is live. @throws ClientError if it does not answer */
  isLive(options: CallOptions = {}): Promise<boolean> {
    return this.#api.isLive(options);
  }

  /** Whether the server and all its models are ready. @throws ClientError if it does not answer */
  isReady(options: CallOptions = {}): Promise<boolean> {
    return this.#api.isReady(options);
  }

  serverMetadata(options: CallOptions = {}): Promise<ServerMetadata> {
    return this.#api.serverMetadata(options);
  }

  /** Statistics of all models, one record for each version (Triton's statistics extension). */
  statistics(options: CallOptions = {}): Promise<readonly ModelStatistics[]> {
    return this.#api.statistics(undefined, options);
  }
}
