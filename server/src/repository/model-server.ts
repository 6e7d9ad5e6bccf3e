/** The `ModelServer` interface for front ends: registry, manager and log behind it. */
import type { InferRequest } from "../core/infer-request.ts";
import type { InferResponse } from "../core/infer-response.ts";
import type {
  LoadOptions,
  LogSettings,
  ModelIndexEntry,
  ModelMetadata,
  ModelServer,
  ModelStatistics,
  ServedModel,
  ServerState,
} from "../core/model-server.ts";
import type { TraceChanges, TraceSettings, Tracing } from "../core/request-trace.ts";
import { invalidArgument, ServerError } from "../core/server-error.ts";
import { canonicalVersion } from "../core/version-text.ts";
import type { ServerLog } from "../observe/log.ts";
import type { ModelManager } from "./model-manager.ts";
import type { ModelVersion } from "./model-version.ts";
import type { ModelRegistry } from "./registry.ts";

/** Extension names in the order in which Triton prints them. */
const EXTENSIONS: readonly string[] = [
  "classification",
  "sequence",
  "model_repository",
  "model_repository(unload_dependents)",
  "schedule_policy",
  "model_configuration",
  "system_shared_memory",
  "cuda_shared_memory",
  "binary_tensor_data",
  "parameters",
  "statistics",
  "trace",
  "logging",
];

export interface RepositoryServerOptions {
  readonly name: string;
  readonly version: string;
  readonly registry: ModelRegistry;
  readonly manager: ModelManager;
  readonly log: ServerLog;
  readonly tracing: Tracing;
  /** Clients may load and unload: `--model-control-mode=explicit`. */
  readonly isExplicit: boolean;
  readonly strictReadiness: boolean;
  /** Load requests bring names alone: `--model-load-overrides=names-only`. */
  readonly refusesOverrides?: boolean;
}

export class RepositoryServer implements ModelServer {
  readonly name: string;
  readonly version: string;
  readonly extensions: readonly string[] = EXTENSIONS;
  readonly tracing: Tracing;
  readonly isExplicit: boolean;
  state: ServerState = "starting";
  readonly #options: RepositoryServerOptions;

  constructor(options: RepositoryServerOptions) {
    this.name = options.name;
    this.version = options.version;
    this.tracing = options.tracing;
    this.isExplicit = options.isExplicit;
    this.#options = options;
  }

  ready(): boolean {
    if (this.state !== "running") return false;
    return !this.#options.strictReadiness || this.#options.registry.isAllReady();
  }

  model(name: string, version: string): ServedModel {
    if (this.state === "starting" || this.state === "failed") throw new ServerError("unavailable", "Server not ready");
    return this.#options.registry.lookUp(name, version);
  }

  async modelReady(name: string, version: string): Promise<boolean> {
    const wanted = canonicalVersion(version); // a malformed version is an error, not "not ready"
    const ready = this.#readyIfAny(name);
    const served = ready.filter((model) => wanted === "" || model.version === wanted);
    const model = served.at(-1);
    if (this.state !== "running" || model?.isHealthy() !== true) return false;
    try {
      await model.checkReady();
      return true;
    } catch (error) {
      this.#options.log.warn("server", ServerError.from(error).message);
      return false;
    }
  }

  /** A name that exists in several repositories is ready in none. */
  #readyIfAny(name: string): readonly ModelVersion[] {
    try {
      return this.#options.registry.readyByName(name);
    } catch {
      return [];
    }
  }

  modelMetadata(name: string, version: string): ModelMetadata {
    this.#expectSetUp();
    const { registry } = this.#options;
    const model = registry.lookUp(name, version);
    const versions = version === "" ? registry.readyByName(name).map((ready) => ready.version) : [model.version];
    return {
      name,
      versions,
      platform: model.config.platform || model.config.backend,
      inputs: [...model.inputs.values()],
      outputs: [...model.outputs.values()],
    };
  }

  statistics(name: string, version: string): readonly ModelStatistics[] {
    this.#expectSetUp();
    const { registry } = this.#options;
    const number = canonicalVersion(version);
    const served = name === "" ? [...registry.allReady()] : registry.readyByName(name);
    if (name !== "" && served.length === 0) {
      throw invalidArgument(`requested model '${name}' is not available`);
    }
    const wanted = number === "" ? served : served.filter((model) => model.version === number);
    if (number !== "" && wanted.length === 0) {
      throw invalidArgument(`requested model version is not available for model '${name}'`);
    }
    return wanted.map((model) => model.statistics.snapshot(model.name, model.version));
  }

  index(readyOnly: boolean): readonly ModelIndexEntry[] {
    this.#expectSetUp();
    const rows = this.#options.manager.index();
    return readyOnly ? rows.filter(({ state }) => state === "READY") : rows;
  }

  async load(name: string, options: LoadOptions): Promise<void> {
    this.#expectSetUp();
    this.#expectExplicit();
    if (this.#options.refusesOverrides === true) expectNameOnly(options);
    await this.#options.manager.load(name, options);
  }

  async unload(name: string, unloadDependents: boolean): Promise<void> {
    this.#expectSetUp();
    this.#expectExplicit();
    await this.#options.manager.unload(name, unloadDependents);
  }

  registerRepository(path: string, folder: string, name: string): void {
    this.#expectExplicit();
    this.#options.manager.repositories.register(path, { folder, name });
  }

  unregisterRepository(path: string): void {
    this.#expectExplicit();
    this.#options.manager.repositories.unregister(path);
  }

  logSettings(): LogSettings {
    return this.#options.log.settings;
  }

  updateLogSettings(changes: Partial<LogSettings>): LogSettings {
    return this.#options.log.update(changes);
  }

  traceSettings(name: string): TraceSettings {
    this.#expectReady(name);
    return this.tracing.settings(name);
  }

  updateTraceSettings(name: string, changes: TraceChanges): TraceSettings {
    this.#expectReady(name);
    return this.tracing.update(name, changes);
  }

  #expectReady(name: string): void {
    if (name === "" || this.#options.registry.isServed(name)) return;
    throw invalidArgument(`Request for unknown model : ${name}`);
  }

  /** For calls between models. */
  infer(request: InferRequest): AsyncIterable<InferResponse> {
    return this.model(request.modelName, request.modelVersion).infer(request);
  }

  #expectSetUp(): void {
    if (this.state !== "failed") return;
    throw new ServerError("unavailable", "Server not ready");
  }

  #expectExplicit(): void {
    if (this.isExplicit) return;
    throw new ServerError("unavailable", "explicit model load / unload is not allowed if polling is enabled");
  }
}

function expectNameOnly({ config, files }: LoadOptions): void {
  if (config === undefined && (files === undefined || files.size === 0)) return;
  throw new ServerError(
    "unsupported",
    "this server loads models by name only: a load request may bring no configuration and no files (--model-load-overrides)",
  );
}
