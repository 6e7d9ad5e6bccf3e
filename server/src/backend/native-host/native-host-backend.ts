/**
 * Backends that are shared libraries for Triton, `libtriton_<name>.so`: each model version has one process, which
 * implements the functions that the library calls. Source: triton-inference-server/core, tritonbackend.h.
 */
import process from "node:process";
import { modelConfigJson } from "../../config/model/model-config-json.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Backend, BackendModel, ModelDescription, ModelSource, UsableGpus } from "../backend.ts";
import { CustomMetrics } from "../python/custom-metrics.ts";
import { describeModel } from "../python/describe-model.ts";
import { Questions } from "../python/questions.ts";
import type { Environment } from "../python/settings.ts";
import { findLibrary, libraryName, searchedFolders } from "./find-library.ts";
import { HostModel } from "./host-model.ts";
import { hostProgram } from "./host-program.ts";
import type { LoadMessage } from "./messages.ts";
import { hostLaunch } from "./start-host.ts";

export interface NativeHostOptions {
  /** Environment of the processes; default: the server's. */
  readonly environment?: Environment;
  /** Devices of instances of kind KIND_GPU; asked when a model is loaded. */
  readonly findGpus?: () => UsableGpus;
  /** The error for a model that has no library. */
  readonly missing?: (backend: string) => ServerError;
}

/** `name`: as users write it in `backend:`. */
export function createNativeHostBackend(name: string, options: NativeHostOptions = {}): Backend {
  const shared = { options, customMetrics: new CustomMetrics() };
  return {
    name,
    findsRuntime: true,
    get gpus() {
      const found = options.findGpus?.();
      return found === undefined ? undefined : { ...found, byRequestOnly: true };
    },
    describe: (source) => describe(source, shared),
    load: (source) => load(source, shared),
    close: () => Promise.resolve(),
  };
}

interface Shared {
  readonly options: NativeHostOptions;
  readonly customMetrics: CustomMetrics;
}

/** Lets the backend complete the configuration, in a process that ends with it. */
async function describe(source: ModelSource, shared: Shared): Promise<ModelDescription | undefined> {
  libraryOf(source, shared.options);
  if (source.settings.get("auto-complete-config") === "false") return undefined;
  const model = await started(source, shared, true);
  await model.close();
  const isSame = model.configJson === modelConfigJson(source.config);
  return isSame ? undefined : describeModel(model.configJson, source.config);
}

function load(source: ModelSource, shared: Shared): Promise<BackendModel> {
  return started(source, shared, false);
}

async function started(
  source: ModelSource,
  { options, customMetrics }: Shared,
  autoComplete: boolean,
): Promise<HostModel> {
  const environment = options.environment ?? process.env;
  const message = loadMessage(source, libraryOf(source, options), autoComplete);
  const model = new HostModel({
    launch: hostLaunch(await hostProgram(environment), source, environment),
    load: message,
    questions: new Questions(undefined),
    customMetrics,
    metricsPage: source.metrics,
  });
  await model.start();
  return model;
}

/** @throws ServerError when there is no library */
function libraryOf(source: ModelSource, { missing }: NativeHostOptions): string {
  const directory = source.settings.get("backend-directory");
  const library = findLibrary(source, directory);
  if (library !== undefined) return library;
  const { backend } = source.config;
  if (missing !== undefined && source.config.runtime === "") throw missing(backend);
  const folders = searchedFolders(source, directory).map((folder) => `'${folder}'`);
  const text = `unable to find backend library '${libraryName(source.config)}' for model '${source.name}', searched: `;
  throw new ServerError("invalid_argument", text + folders.join(" "));
}

function loadMessage(source: ModelSource, library: string, autoComplete: boolean): LoadMessage {
  const { config, settings, modelFolder, name, version } = source;
  return {
    library,
    backend: config.backend,
    backendConfigJson: JSON.stringify({ cmdline: { ...DEFAULT_SETTINGS, ...Object.fromEntries(settings) } }),
    model: name,
    version,
    modelFolder,
    configJson: modelConfigJson(config),
    autoComplete,
    decoupled: config.model_transaction_policy?.decoupled ?? false,
    states: (config.sequence_batching?.state ?? []).map(({ output_name }) => output_name),
  };
}

/** Settings that Triton gives to every backend. */
const DEFAULT_SETTINGS = {
  "auto-complete-config": "true",
  "min-compute-capability": "6.000000",
  "default-max-batch-size": "4",
};
