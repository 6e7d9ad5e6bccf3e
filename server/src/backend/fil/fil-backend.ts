/**
 * The backend `fil`: trees of XGBoost, LightGBM, scikit-learn and cuML, computed on the CPU by the libraries that made them.
 * Makes models; what a run is, is `fil-instance.ts`. Source of names and parameters: triton-inference-server/fil_backend.
 */
import { stat } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import process from "node:process";
import type { Environment } from "../../core/environment.ts";
import { ServerError } from "../../core/server-error.ts";
import type { ForestInfo, ForestModel } from "../../native/trees/forest.ts";
import type { Backend, BackendModel, InstanceSpec, ModelDescription, ModelInstance, ModelSource } from "../backend.ts";
import { locateModel } from "../model-path.ts";
import { NativeRunner } from "../native-run/native-runner.ts";
import { newRunTurns, type RunTurns } from "../native-run/run-turns.ts";
import { FilInstance } from "./fil-instance.ts";
import { DEFAULT_FILES, type FilSettings, parseFilSettings } from "./fil-settings.ts";
import { ForestLibraries } from "./forest-libraries.ts";
import { CONTRIBUTIONS, describeForest, type PlannedOutput, planOutputs } from "./forest-tensors.ts";

export interface FilOptions {
  readonly turns?: RunTurns;
  readonly environment?: Environment;
}

export function createFilBackend({ turns = newRunTurns(), environment = process.env }: FilOptions = {}): Backend {
  return new FilBackend(turns, environment);
}

class FilBackend implements Backend {
  readonly name = "fil";
  readonly #turns: RunTurns;
  readonly #libraries: ForestLibraries;

  constructor(turns: RunTurns, environment: Environment) {
    this.#turns = turns;
    this.#libraries = new ForestLibraries(environment);
  }

  /** Undefined when the configuration says everything: then nothing of it is completed. */
  async describe(source: ModelSource): Promise<ModelDescription | undefined> {
    const { input, output } = source.config;
    if (input.length > 0 && output.length > 0) return undefined;
    const settings = parseFilSettings(source.config);
    const { model } = await this.#open(source, settings);
    try {
      return describeForest(settings, model.info);
    } finally {
      model.close();
    }
  }

  async load(source: ModelSource): Promise<BackendModel> {
    const settings = parseFilSettings(source.config);
    if (settings.note !== undefined) source.log.info("fil_backend", settings.note);
    const { model, library } = await this.#open(source, settings);
    source.log.verbose(1, "fil_backend", `model '${source.name}' is computed by ${library}`);
    try {
      const outputs = planOutputs(source.config, settings, model.info);
      for (const { kind } of outputs) if (!model.outputs.includes(kind)) throw noContributions(source.name);
      const { info } = model;
      return new FilModel(model, { runner: new NativeRunner(this.#turns), info, settings, outputs });
    } catch (error) {
      model.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    // The libraries stay: nothing of them is bound to the backend.
  }

  async #open(source: ModelSource, settings: FilSettings): Promise<{ model: ForestModel; library: string }> {
    const fileName = DEFAULT_FILES[settings.format];
    const named = await locateModel(source, fileName);
    // A folder holds the model under its usual name.
    const path = (await stat(named)).isDirectory() ? join(named, fileName) : named;
    const numThreads = settings.numThreads || threadsOfOne(source);
    const file = { path, format: settings.format, library: settings.library, settings: source.settings };
    try {
      return await this.#libraries.load(file, { numThreads });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ServerError("unavailable", `unable to load model '${source.name}' from '${path}': ${reason}`, {
        cause: error,
      });
    }
  }
}

interface SharedContext {
  readonly runner: NativeRunner;
  readonly info: ForestInfo;
  readonly settings: FilSettings;
  readonly outputs: readonly PlannedOutput[];
}

class FilModel implements BackendModel {
  readonly #model: ForestModel;
  readonly #context: SharedContext;

  constructor(model: ForestModel, context: SharedContext) {
    this.#model = model;
    this.#context = context;
  }

  async createInstance({ name }: InstanceSpec): Promise<ModelInstance> {
    return new FilInstance(name, { ...this.#context, forest: await this.#model.createForest() });
  }

  async close(): Promise<void> {
    this.#model.close();
  }
}

/** Instances run side by side: each gets its share of the cores. */
function threadsOfOne({ config }: ModelSource): number {
  const numInstances = config.instance_group.reduce((sum, { count }) => sum + Math.max(1, count), 0);
  return Math.max(1, Math.floor(availableParallelism() / Math.max(1, numInstances)));
}

function noContributions(name: string): ServerError {
  const text =
    `model '${name}': '${CONTRIBUTIONS}' is given for XGBoost's JSON and UBJSON and LightGBM's text only: treelite's library ` +
    "computes no SHAP values; save the model in the format of its own library";
  return new ServerError("unsupported", text);
}
