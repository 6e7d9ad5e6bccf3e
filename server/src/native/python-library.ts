/**
 * Finds the shared libraries that Python packages carry: a path that is named, an environment variable, the packages of the
 * interpreter that runs Python models. Does not load them. Source: Python documentation, "The initialization of the sys.path
 * module search path".
 */
import { execFile } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import process from "node:process";
import type { Environment } from "../core/environment.ts";

export interface PythonLibrarySpec {
  /** For messages, e.g. "XGBoost". */
  readonly title: string;
  /** Name for `pip install`. */
  readonly pipName: string;
  /** Environment variable with the file. */
  readonly override: keyof Environment;
  /** The setting of `--backend-config` with the file, for messages. */
  readonly setting: string;
  /** The file in a folder of Python packages; a trailing `*` stands for any version. */
  readonly file: string;
}

export interface PythonLibrarySearch {
  readonly environment: Environment;
  /** Folders that the interpreter imports from. @throws Error when there is no such interpreter */
  packageFolders(python: string): Promise<readonly string[]>;
}

const ASK_PATH = "import json, sys; print(json.dumps(sys.path))";
/** Only ends an interpreter that hangs. */
const ASK_TIMEOUT_MS = 120_000;
const ASK_MAX_BYTES = 1024 * 1024;

/** `named`: a path from a configuration, which has precedence. @throws Error that names the package to install */
export async function findPythonLibrary(
  spec: PythonLibrarySpec,
  named: string | undefined,
  lookUp: PythonLibrarySearch = thisMachine(process.env),
): Promise<string> {
  const override = [named, lookUp.environment[spec.override]].find((path) => path !== undefined && path !== "");
  if (override !== undefined) {
    // A wrong path must be an error, even when a library is found elsewhere.
    if (!isFile(override)) throw new Error(`${spec.title}: '${override}' is no file, expected ${basename(spec.file)}`);
    return override;
  }
  const { NEREID_PYTHON } = lookUp.environment;
  const python = NEREID_PYTHON === undefined || NEREID_PYTHON === "" ? "python3" : NEREID_PYTHON;
  const searched = await lookUp.packageFolders(python).catch((error: unknown) => {
    throw missing(spec, `${python} can not be asked for its packages: ${String(error)}`);
  });
  const folders = searched.filter(isAbsolute);
  for (const folder of folders) {
    const path = matchFile(join(folder, spec.file));
    if (path !== undefined) return path;
  }
  throw missing(spec, `found no ${spec.file} in the packages of ${python} (${folders.join(", ")})`);
}

function missing({ title, pipName, override, setting }: PythonLibrarySpec, reason: string): Error {
  return new Error(
    `${title} is not installed: ${reason}; pip install ${pipName}, or name the library in ${override} or with ` +
      `--backend-config=${setting}=<path>, or another interpreter in NEREID_PYTHON`,
  );
}

/** Newest version first. */
function matchFile(pattern: string): string | undefined {
  if (!pattern.endsWith("*")) return isFile(pattern) ? pattern : undefined;
  const prefix = basename(pattern).slice(0, -1);
  const names = listFolder(dirname(pattern)).filter((name) => name.startsWith(prefix));
  names.sort((a, b) => b.localeCompare(a, "en", { numeric: true }));
  return names.map((name) => join(dirname(pattern), name)).find(isFile);
}

function thisMachine(environment: Environment): PythonLibrarySearch {
  return { environment, packageFolders: askInterpreter };
}

function askInterpreter(python: string): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const options = { timeout: ASK_TIMEOUT_MS, maxBuffer: ASK_MAX_BYTES, encoding: "utf8" } as const;
    execFile(python, ["-c", ASK_PATH], options, (error, stdout) => {
      if (error === null) resolve(textsOf(JSON.parse(stdout)));
      else reject(error);
    });
  });
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((entry) => typeof entry === "string") : [];
}

function listFolder(path: string): readonly string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

/** One library, opened with its first use; of several paths each once. A failed try is made again by the next use. */
export class LazyPythonLibrary<Library> {
  readonly spec: PythonLibrarySpec;
  readonly #open: (path: string) => Library;
  readonly #lookUp: PythonLibrarySearch;
  readonly #opening = new Map<string, Promise<Library>>();

  constructor(spec: PythonLibrarySpec, open: (path: string) => Library, environment: Environment = process.env) {
    this.spec = spec;
    this.#open = open;
    this.#lookUp = thisMachine(environment);
  }

  /** `named`: as in `findPythonLibrary`. @throws Error that says which library, and why it can not be used */
  get(named: string | undefined): Promise<Library> {
    const key = named ?? "";
    let opening = this.#opening.get(key);
    if (opening === undefined) {
      opening = this.#find(named);
      this.#opening.set(key, opening);
      opening.catch(() => this.#opening.delete(key));
    }
    return opening;
  }

  async #find(named: string | undefined): Promise<Library> {
    const path = await findPythonLibrary(this.spec, named, this.#lookUp);
    try {
      return this.#open(path);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new Error(`${this.spec.title} (${path}) can not be loaded: ${reason}`, { cause: error });
    }
  }
}
