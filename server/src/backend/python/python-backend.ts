/** The backend of models written in Python: `model.py` with a class `TritonPythonModel`, one process per instance. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { modelConfigJson } from "../../config/model/model-config-json.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import type {
  Backend,
  BackendModel,
  InstanceSpec,
  ModelDescription,
  ModelInstance,
  ModelSource,
  UsableGpus,
} from "../backend.ts";
import { CustomMetrics } from "./custom-metrics.ts";
import { describeModel } from "./describe-model.ts";
import { openEnvironment } from "./execution-environment.ts";
import type { InitializeMessage } from "./messages.ts";
import { PythonInstance } from "./python-instance.ts";
import { type ModelControl, Questions } from "./questions.ts";
import {
  backendEnvironment,
  backendProgram,
  type Environment,
  modelFile,
  readSettings,
  stubProgram,
} from "./settings.ts";
import { startStub } from "./start-stub.ts";
import type { StubLaunch } from "./stub-process.ts";

const OTHER_STUB = "triton_python_backend_stub";

export interface PythonBackendOptions {
  /** Another name: of a Python-based backend, whose code runs instead of the models' own. */
  readonly name?: string;
  /** Environment of the processes; default: the server's. */
  readonly environment?: Environment;
  /** Model control for models that load and unload others; absent: none. */
  readonly control?: ModelControl;
  /** Devices of instances of kind KIND_GPU; asked when a model is loaded. */
  readonly findGpus?: () => UsableGpus;
}

/** State shared by all models of the backend. */
interface Shared {
  /** The file to run: relative to the version's folder, or absolute. */
  readonly programOf: (source: ModelSource) => string;
  readonly environment: Environment;
  readonly questions: Questions;
  readonly customMetrics: CustomMetrics;
}

export function createPythonBackend(options: PythonBackendOptions = {}): Backend {
  const environment = options.environment ?? process.env;
  const name = options.name ?? "python";
  const programOf =
    options.name === undefined
      ? ({ config }: ModelSource) => modelFile(config)
      : ({ settings, config }: ModelSource) => backendProgram(name, settings, config);
  const shared = {
    programOf,
    environment,
    questions: new Questions(options.control),
    customMetrics: new CustomMetrics(),
  };
  return {
    name,
    get gpus() {
      return options.findGpus?.();
    },
    describe: (source) => describe(source, shared),
    load: (source) => load(source, shared),
    close: () => Promise.resolve(),
  };
}

/** Asks the model's code in a process of its own, which ends with the answer. */
async function describe(source: ModelSource, shared: Shared): Promise<ModelDescription | undefined> {
  const { environment } = shared;
  const { startTimeoutMs } = readSettings(source.settings, source.config, source.modelFolder, environment);
  const launch = (await launcherOf(source, shared))(source.name);
  const message: InitializeMessage = {
    ...commonMessage(source, shared.programOf(source)),
    mode: "describe",
    name: source.name,
    arguments: new Map(),
  };
  const listener = { message: () => undefined, ended: () => undefined };
  const { stub, configJson } = await startStub(launch, message, startTimeoutMs, listener);
  stub.kill("The model has described itself");
  await stub.ended;
  return configJson === "" ? undefined : describeModel(configJson, source.config);
}

async function load(source: ModelSource, shared: Shared): Promise<BackendModel> {
  const { environment, questions, customMetrics } = shared;
  const { startTimeoutMs, hangTimeoutMs } = readSettings(
    source.settings,
    source.config,
    source.modelFolder,
    environment,
  );
  warnOfStub(source);
  const launchOf = await launcherOf(source, shared);
  return {
    async createInstance(spec: InstanceSpec): Promise<ModelInstance> {
      const instance = new PythonInstance({
        launch: launchOf(spec.name),
        initialize: {
          ...commonMessage(source, shared.programOf(source)),
          mode: "serve",
          name: spec.name,
          arguments: initializeArguments(source, spec),
        },
        startTimeoutMs,
        hangTimeoutMs,
        models: source.models,
        questions,
        customMetrics,
        metricsPage: source.metrics,
      });
      await instance.start();
      return instance;
    },
    close: () => Promise.resolve(),
  };
}

/** How a process of the model is started, by the name of its instance. @throws ServerError when its environment is unusable */
async function launcherOf(source: ModelSource, shared: Shared): Promise<(name: string) => StubLaunch> {
  const base = shared.environment;
  const settings = readSettings(source.settings, source.config, source.modelFolder, base);
  const path = settings.environmentPath ?? backendEnvironment(shared.programOf(source));
  const { interpreter, environment } =
    path === undefined
      ? { interpreter: settings.interpreter, environment: base }
      : await openEnvironment(path, source.name, base);
  const program = stubProgram();
  const common = { command: interpreter, folder: process.cwd(), environment, log: source.log, logLocation: "python" };
  const startProblem = (error: Error): string => startText(interpreter, error);
  return (name) => ({ ...common, name, startProblem, args: ["-u", "-B", program, name] });
}

function startText(interpreter: string, error: Error): string {
  return (
    `The Python interpreter '${interpreter}' cannot be started (${error.message}). ` +
    "Install Python 3 or name one with --backend-config=python,interpreter=<path> or the environment variable NEREID_PYTHON"
  );
}

/** Models for Triton may bring a program of its own kind, to run under another version of Python. */
function warnOfStub({ name, modelFolder, log }: ModelSource): void {
  if (!existsSync(join(modelFolder, OTHER_STUB))) return;
  const advice =
    "name an interpreter with --backend-config=python,interpreter=<path>, or an environment in EXECUTION_ENV_PATH";
  log.warn("python", `model '${name}' brings a ${OTHER_STUB}, which this server does not run: ${advice}`);
}

function commonMessage(source: ModelSource, file: string): Omit<InitializeMessage, "mode" | "name" | "arguments"> {
  const { config, version, versionFolder, modelFolder } = source;
  return {
    version: String(version),
    versionFolder,
    file,
    modelFolder,
    configJson: modelConfigJson(config),
    decoupled: isDecoupled(config),
  };
}

/** The `args` of `initialize`. */
function initializeArguments(source: ModelSource, spec: InstanceSpec): ReadonlyMap<string, string> {
  return new Map([
    ["model_config", modelConfigJson(source.config)],
    ["model_instance_kind", spec.kind.replace("KIND_", "")],
    ["model_instance_name", spec.name],
    ["model_instance_device_id", String(spec.deviceId)],
    ["model_repository", source.modelFolder],
    ["model_version", String(source.version)],
    ["model_name", source.name],
  ]);
}

function isDecoupled(config: ModelConfig): boolean {
  return config.model_transaction_policy?.decoupled ?? false;
}
