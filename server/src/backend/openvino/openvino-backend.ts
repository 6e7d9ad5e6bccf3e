/**
 * The backend `openvino`: models in OpenVINO's IR and in what else its library reads. Makes models; what a run is, is
 * `openvino-instance.ts`. Source of names and parameters: triton-inference-server/openvino_backend.
 */
import process from "node:process";
import type { Environment } from "../../core/environment.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { ServerError } from "../../core/server-error.ts";
import {
  type CompiledModel,
  OPENVINO_LIBRARY,
  OpenvinoLibrary,
  type OpenvinoModel,
} from "../../native/openvino/openvino.ts";
import { LazyPythonLibrary } from "../../native/python-library.ts";
import type { Backend, BackendModel, InstanceSpec, ModelDescription, ModelInstance, ModelSource } from "../backend.ts";
import { locateModel } from "../model-path.ts";
import { NativeRunner } from "../native-run/native-runner.ts";
import { newRunTurns, type RunTurns } from "../native-run/run-turns.ts";
import { describePorts, expectPorts, plannedShapes } from "./model-shapes.ts";
import { OpenvinoInstance, type OpenvinoInstanceContext } from "./openvino-instance.ts";
import { type OpenvinoSettings, parseOpenvinoSettings } from "./openvino-settings.ts";

const DEFAULT_FILE = "model.xml";

export interface OpenvinoOptions {
  readonly turns?: RunTurns;
  readonly environment?: Environment;
}

export function createOpenvinoBackend({
  turns = newRunTurns(),
  environment = process.env,
}: OpenvinoOptions = {}): Backend {
  return new OpenvinoBackend(turns, environment);
}

class OpenvinoBackend implements Backend {
  readonly name = "openvino";
  readonly #turns: RunTurns;
  readonly #library: LazyPythonLibrary<OpenvinoLibrary>;

  constructor(turns: RunTurns, environment: Environment) {
    this.#turns = turns;
    this.#library = new LazyPythonLibrary(OPENVINO_LIBRARY, (path) => new OpenvinoLibrary(path), environment);
  }

  /** Undefined when the configuration says everything: then nothing of it is completed. */
  async describe(source: ModelSource): Promise<ModelDescription | undefined> {
    const { input, output } = source.config;
    if (input.length > 0 && output.length > 0) return undefined;
    const model = await this.#read(source, parseOpenvinoSettings(source.config));
    try {
      return describePorts(source.name, model.inputs, model.outputs);
    } finally {
      model.close();
    }
  }

  async load(source: ModelSource): Promise<BackendModel> {
    const { config, log } = source;
    const settings = parseOpenvinoSettings(config);
    if (settings.note !== undefined) log.info("openvino", settings.note);
    const model = await this.#read(source, settings);
    try {
      const compiled = await explained(source, () => compile(model, config, settings));
      const { inputs } = model;
      const [fixedRows] = inputs.flatMap(({ dims }) => dims?.[0] ?? []).filter((dim) => dim >= 0);
      return new OpenvinoBackendModel(compiled, {
        runner: new NativeRunner(this.#turns),
        inputNames: inputs.map(({ name }) => name),
        isBatching: config.max_batch_size > 0,
        fixedRows,
        padsBatches: settings.padsBatches,
      });
    } finally {
      model.close();
    }
  }

  async close(): Promise<void> {
    // The library and its core stay: nothing of them is bound to the backend.
  }

  async #read(source: ModelSource, settings: OpenvinoSettings): Promise<OpenvinoModel> {
    const path = await locateModel(source, DEFAULT_FILE);
    return explained(source, async () => {
      const library = await this.#library.get(settings.library ?? source.settings.get("library"));
      source.log.verbose(1, "openvino", `model '${source.name}' is computed by ${library.path}`);
      if (settings.extension !== undefined) library.addExtension(settings.extension);
      return library.read(path);
    });
  }
}

async function compile(model: OpenvinoModel, config: ModelConfig, settings: OpenvinoSettings): Promise<CompiledModel> {
  const shapes = plannedShapes(config, settings, model.inputs);
  if (shapes.size > 0) model.reshape(shapes);
  expectPorts(config, model.inputs, model.outputs);
  return model.compile(settings.device, settings.properties);
}

class OpenvinoBackendModel implements BackendModel {
  readonly #compiled: CompiledModel;
  readonly #context: Omit<OpenvinoInstanceContext, "request">;

  constructor(compiled: CompiledModel, context: Omit<OpenvinoInstanceContext, "request">) {
    this.#compiled = compiled;
    this.#context = context;
  }

  async createInstance({ name }: InstanceSpec): Promise<ModelInstance> {
    return new OpenvinoInstance(name, { ...this.#context, request: this.#compiled.createRequest() });
  }

  async close(): Promise<void> {
    this.#compiled.close();
  }
}

/** @throws ServerError with the library's words */
async function explained<Result>({ name }: ModelSource, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ServerError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new ServerError("unavailable", `unable to load model '${name}': ${reason}`, { cause: error });
  }
}
