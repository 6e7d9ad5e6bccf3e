/**
 * Reads a model's folder: configuration text, versions and artifacts. Source: Triton documentation, "Model Repository".
 * Interprets nothing.
 */
import { type Dirent, existsSync, readdirSync, readFileSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import type { ModelArtifact } from "../../config/model/backend-fields.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { isUnfinishedName } from "../../core/unfinished-name.ts";

/** Folders of a model that are not versions and deserve no warning. */
const KNOWN_FOLDERS = new Set(["warmup", "initial_state", "configs"]);
/** Maximum bytes of a configuration: people write it by hand. */
const MAX_CONFIG_BYTES = 16 * 1024 * 1024;

export interface ModelFolder {
  readonly name: string;
  /** The model's name is not that of its folder, so the name in its configuration has no meaning. */
  readonly isMapped?: boolean;
  /** Absolute paths of the model and of its repository. */
  readonly path: string;
  readonly repositoryPath: string;
  /** Undefined when there is no configuration file. */
  readonly config: { readonly text: string; readonly path: string } | undefined;
  /** Ascending. */
  readonly versions: readonly number[];
  /** Artifacts in the first version folder; empty without one. */
  readonly artifacts: readonly ModelArtifact[];
  readonly warnings: readonly string[];
  /** Changes with any file: one line per file, beginning with its path inside the folder. */
  readonly fingerprint: string;
  /** Origin of the model, which differs from `path` for a copy. */
  readonly origin: string;
}

/** Names of the models in a repository. @throws ServerError when it is no folder */
export function listModels(repositoryPath: string): string[] {
  try {
    return readdirSync(repositoryPath, { withFileTypes: true })
      .filter((entry) => !isUnfinishedName(entry.name) && isFolderEntry(repositoryPath, entry))
      .map(({ name }) => name)
      .sort();
  } catch (error) {
    throw new ServerError("invalid_argument", "repository path is not a valid directory", { cause: error });
  }
}

/** `configName`: `--model-config-name`, "" = config.pbtxt. @throws ServerError when the folder cannot be read */
export function readModelFolder(repositoryPath: string, name: string, configName: string): ModelFolder {
  try {
    return readFolder(repositoryPath, name, configName);
  } catch (error) {
    if (error instanceof ServerError) throw error;
    throw unreadable(join(repositoryPath, name), error);
  }
}

function unreadable(path: string, error: unknown): ServerError {
  const reason = error instanceof Error ? error.message : String(error);
  return new ServerError("invalid_argument", `cannot read ${path}: ${reason}`, { cause: error });
}

function readFolder(repositoryPath: string, name: string, configName: string): ModelFolder {
  const path = join(repositoryPath, name);
  const warnings: string[] = [];
  const versions = readdirSync(path)
    .filter((entry) => isFolder(join(path, entry)))
    .flatMap((entry) => versionOf(name, entry, warnings))
    .sort((a, b) => a - b);
  return {
    name,
    path,
    repositoryPath,
    config: readConfig(path, configName),
    versions,
    artifacts: versions[0] === undefined ? [] : artifactsOf(join(path, String(versions[0]))),
    warnings,
    fingerprint: fingerprintOf(path),
    origin: path,
  };
}

function artifactsOf(path: string): ModelArtifact[] {
  return readdirSync(path)
    .sort()
    .map((name) => ({ name, isFolder: isFolder(join(path, name)) }));
}

function versionOf(model: string, entry: string, warnings: string[]): number[] {
  if (/^[1-9][0-9]*$/.test(entry) && Number.isSafeInteger(Number(entry))) return [Number(entry)];
  if (KNOWN_FOLDERS.has(entry) || entry.startsWith(".")) return [];
  const reason = /^0[0-9]*$/.test(entry) ? "version directories must not begin with 0" : "not a version number";
  warnings.push(`ignoring version directory '${entry}' of model '${model}': ${reason}`);
  return [];
}

function readConfig(path: string, configName: string): { text: string; path: string } | undefined {
  const custom = join(path, "configs", `${configName}.pbtxt`);
  const file = configName !== "" && existsSync(custom) ? custom : join(path, "config.pbtxt");
  if (!existsSync(file)) return undefined;
  const stat = statSync(file);
  const { size } = stat;
  if (!stat.isFile()) throw invalidArgument(`${file} is no file; expected a model configuration`);
  if (size > MAX_CONFIG_BYTES) {
    const text = `${file} has ${size} bytes: a model configuration of more than ${MAX_CONFIG_BYTES} is refused`;
    throw invalidArgument(text);
  }
  return { text: readFileSync(file, "utf8"), path: file };
}

/**
 * A fingerprint that changes with any file: paths, sizes and modification times. Links may form circles, so each folder
 * is visited once.
 */
export function fingerprintOf(path: string): string {
  const lines: string[] = [];
  const visited = new Set<string>();
  const visit = (folder: string): void => {
    for (const entry of readdirSync(folder).sort()) {
      const file = join(folder, entry);
      const stat = statIfAny(file);
      if (stat === undefined) continue;
      const id = `${stat.dev}:${stat.ino}`;
      if (!stat.isDirectory()) lines.push(`${file.slice(path.length + 1)} ${stat.size} ${stat.mtimeMs}`);
      else if (!visited.has(id)) {
        visited.add(id);
        visit(file);
      }
    }
  };
  const root = statIfAny(path);
  if (root !== undefined) visited.add(`${root.dev}:${root.ino}`);
  visit(path);
  return lines.join("\n");
}

/** Most entries need no stat call: listing a thousand models must not block requests. */
function isFolderEntry(parent: string, entry: Dirent): boolean {
  if (entry.isDirectory() || entry.isFile()) return entry.isDirectory();
  return isFolder(join(parent, entry.name));
}

function isFolder(path: string): boolean {
  return statIfAny(path)?.isDirectory() === true;
}

/** Undefined for entries that are missing or unreadable, such as a link to itself: they are no models. */
function statIfAny(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
