/**
 * Loads dependencies of a foreign library that the dynamic linker cannot find but Nereid can. A library that is already
 * loaded needs no search path. Does not know which library needs them.
 */

import { openLibrary } from "../ffi.ts";
import { findCudaFile } from "./libraries.ts";

export interface FoundFiles {
  /** Path of a file with this name. */
  find(fileName: string): string | undefined;
  /** @throws Error with the reason of the linker */
  open(path: string): unknown;
}

const ON_THIS_MACHINE: FoundFiles = { find: (fileName) => findCudaFile(fileName), open: openLibrary };

/** Matches the linker's message, also when a caller wraps it. Only names without a folder are searched. */
const MISSING = /(?:^|\s)([^\s:/]+\.so[^\s:/]*): cannot open shared object file/;

/** cuDNN is opened by name when a model needs it; its parts open each other, the main library first. */
const CUDNN_FILES: readonly string[] = [
  "libcudnn.so.9",
  "libcudnn_graph.so.9",
  "libcudnn_ops.so.9",
  "libcudnn_engines_runtime_compiled.so.9",
  "libcudnn_engines_precompiled.so.9",
  "libcudnn_heuristic.so.9",
  "libcudnn_cnn.so.9",
  "libcudnn_adv.so.9",
];

export function missingLibrary(error: unknown): string | undefined {
  return error instanceof Error ? MISSING.exec(error.message)?.[1] : undefined;
}

/** Retries each time after a missing library was found. @throws the error of the last attempt */
export function withFoundLibraries(
  attempt: () => void,
  files: FoundFiles = ON_THIS_MACHINE,
  tried: Set<string> = new Set(),
): void {
  for (;;) {
    try {
      attempt();
      return;
    } catch (error) {
      const name = missingLibrary(error);
      const path = name === undefined || tried.has(name) ? undefined : files.find(name);
      if (name === undefined || path === undefined) throw error;
      tried.add(name);
      withFoundLibraries(() => files.open(path), files, tried);
    }
  }
}

/** Does nothing when the linker finds cuDNN, or when it is not installed: only some models need it. */
export function loadCudnn(files: FoundFiles = ON_THIS_MACHINE): void {
  const [first = "", ...others] = CUDNN_FILES;
  if (opens(files, first)) return;
  const path = files.find(first);
  if (path === undefined) return;
  for (const name of [...others, first]) {
    const part = files.find(name);
    if (part !== undefined) opens(files, part);
  }
}

function opens(files: FoundFiles, path: string): boolean {
  try {
    withFoundLibraries(() => files.open(path), {
      ...files,
      find: (name) => (name === path ? undefined : files.find(name)),
    });
    return true;
  } catch {
    return false;
  }
}
