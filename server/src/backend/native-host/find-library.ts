/**
 * The shared library that runs a model: of the version's folder, the model's, or the folder of the backend, in this order.
 * Source: triton-inference-server/core, backend_model.cc, `GetBackendLibraryProperties`.
 */
import { existsSync, realpathSync } from "node:fs";
import { isAbsolute, join, sep } from "node:path";
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";

/** Names of folders: no path, and neither "." nor "..". */
const SAFE_BACKEND = /^(?!\.\.?$)[^/\\\0]+$/;

export interface LibraryPlace {
  readonly name: string;
  readonly config: Pick<ModelConfig, "backend" | "runtime">;
  readonly modelFolder: string;
  readonly versionFolder: string;
}

/** File name of the library that a configuration asks for; undefined when it asks for no library. */
export function libraryName({ backend, runtime }: LibraryPlace["config"]): string | undefined {
  if (!SAFE_BACKEND.test(backend)) return undefined;
  if (runtime === "") return `libtriton_${backend}.so`;
  return runtime.endsWith(".so") ? runtime : undefined;
}

/**
 * Absolute path with links followed; undefined when no folder has the library. `directory`: `--backend-directory`;
 * undefined: only the model's own folders are searched.
 * @throws ServerError invalid_argument when a name or a link leaves the folder that it is in
 */
export function findLibrary(place: LibraryPlace, directory: string | undefined): string | undefined {
  const file = libraryName(place.config);
  if (file === undefined) return undefined;
  for (const { folder, root } of searched(place, directory)) {
    expectInside(file, place, folder);
    if (existsSync(join(folder, file))) return containedIn(root, join(folder, file), place);
  }
  return undefined;
}

interface Searched {
  readonly folder: string;
  /** A link in `folder` may lead to another file of this folder. */
  readonly root: string;
}

/** The folders in which the library may lie. */
export function searchedFolders(place: LibraryPlace, directory: string | undefined): readonly string[] {
  return searched(place, directory).map(({ folder }) => folder);
}

function searched({ config, modelFolder, versionFolder }: LibraryPlace, directory: string | undefined): Searched[] {
  const own = [versionFolder, modelFolder].map((folder) => ({ folder, root: modelFolder }));
  return directory === undefined ? own : [...own, { folder: join(directory, config.backend), root: directory }];
}

/** The file may be a path, but not one that leaves the folder. */
function expectInside(file: string, { name }: LibraryPlace, folder: string): void {
  if (!isAbsolute(file) && !file.includes("\0") && !file.split(/[/\\]/).includes("..")) return;
  const text =
    `backend library name '${file}' escapes backend directory '${folder}', for model '${name}', ` +
    "check model config runtime field";
  throw invalidArgument(text);
}

/** Links may stay inside `root` only (CWE-22). `root` itself may be one. */
function containedIn(root: string, path: string, { name }: LibraryPlace): string {
  const real = realpathSync(path);
  if (real.startsWith(realpathSync(root) + sep)) return real;
  throw invalidArgument(`the backend library '${path}' of model '${name}' leads out of '${root}': put the file there`);
}
