/**
 * Settings that decide how a Python process is started: backend settings, the model's parameters and the environment.
 */
import { existsSync } from "node:fs";
import { dirname, isAbsolute, join, normalize, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

export interface PythonSettings {
  /** For models without an environment of their own. */
  readonly interpreter: string;
  /** A folder with an interpreter, or an archive of one. */
  readonly environmentPath: string | undefined;
  /** How long a process may take until it answers at all; `initialize` of the model is not counted. */
  readonly startTimeoutMs: number;
  /** How long a process may give no sign of life once its model is loaded; 0 = for ever. */
  readonly hangTimeoutMs: number;
}

const DEFAULT_START_TIMEOUT_S = 30;
const DEFAULT_HANG_TIMEOUT_S = 60;
const DEFAULT_FILE = "model.py";
const MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY";

/** @throws ServerError when a setting cannot be used */
export function readSettings(
  settings: ReadonlyMap<string, string>,
  config: ModelConfig,
  modelFolder: string,
  environment: Environment,
): PythonSettings {
  const force = config.parameters.FORCE_CPU_ONLY_INPUT_TENSORS?.string_value;
  if (force !== undefined && force !== "yes" && force !== "no") {
    throw invalidArgument(`Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: ${force}'`);
  }
  return {
    interpreter: nonEmpty(settings.get("interpreter")) ?? nonEmpty(environment.NEREID_PYTHON) ?? "python3",
    environmentPath: environmentPath(config, modelFolder),
    startTimeoutMs: startTimeoutS(settings.get("stub-timeout-seconds")) * 1000,
    hangTimeoutMs: seconds("hang-timeout-seconds", settings.get("hang-timeout-seconds"), DEFAULT_HANG_TIMEOUT_S) * 1000,
  };
}

/** The artifact, relative to the version folder. @throws ServerError when it would lie outside */
export function modelFile(config: ModelConfig): string {
  const file = normalize(config.default_model_filename === "" ? DEFAULT_FILE : config.default_model_filename);
  if (isAbsolute(file) || file === ".." || file.startsWith(`..${sep}`)) {
    throw invalidArgument(
      `default_model_filename '${config.default_model_filename}' of model '${config.name}' lies outside its version folder`,
    );
  }
  return file;
}

/**
 * The code of a backend that is written in Python itself: of the folder of backends, else of this program.
 * @throws ServerError when this program has none of that name
 */
export function backendProgram(
  name: string,
  settings: ReadonlyMap<string, string>,
  { runtime }: Pick<ModelConfig, "runtime">,
): string {
  const folder = nonEmpty(settings.get("backend-directory"));
  const own = folder === undefined ? undefined : join(folder, name, DEFAULT_FILE);
  // Triton's PyTorch library, for which the program here stands, comes before its Python file.
  const isLibrary = name === "pytorch" && runtime !== DEFAULT_FILE;
  return own !== undefined && !isLibrary && existsSync(own) ? own : installedFile(`backends/${name}/${DEFAULT_FILE}`);
}

/** The environment that a backend written in Python brings for all of its models, if any. `program`: its code. */
export function backendEnvironment(program: string): string | undefined {
  const archive = join(dirname(program), `pb_exec_env_${DEFAULT_FILE}.tar.gz`);
  return isAbsolute(program) && existsSync(archive) ? archive : undefined;
}

/** The program that runs in the process. */
export function stubProgram(): string {
  return installedFile("stub.py");
}

/** Sources and builds lie at different depths. */
function installedFile(name: string): string {
  const candidates = [`../../../python/${name}`, `../../../../python/${name}`];
  const paths = candidates.map((path) => fileURLToPath(new URL(path, import.meta.url)));
  const found = paths.find((path) => existsSync(path));
  if (found === undefined) {
    throw new ServerError(
      "internal",
      `A part of the Python backend is missing from the installation: looked for ${paths.join(", ")}`,
    );
  }
  return found;
}

/** An environment of the model's own. */
function environmentPath(config: ModelConfig, modelFolder: string): string | undefined {
  return nonEmpty(config.parameters.EXECUTION_ENV_PATH?.string_value)?.replaceAll(MODEL_DIRECTORY, modelFolder);
}

function startTimeoutS(written: string | undefined): number {
  const timeoutS = seconds("stub-timeout-seconds", written, DEFAULT_START_TIMEOUT_S);
  if (timeoutS <= 0) {
    throw invalidArgument("stub-timeout-seconds can't be smaller than or equal to zero.");
  }
  return timeoutS;
}

function seconds(name: string, written: string | undefined, byDefault: number): number {
  if (written === undefined) return byDefault;
  const value = Number(written);
  if (Number.isFinite(value)) return value;
  throw invalidArgument(`${name} must be a number of seconds, got '${written}'`);
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}
