/**
 * Loads those of NVIDIA's libraries that a foreign library needs and the linker does not find, from where Nereid finds them:
 * a library that is in the process already is looked for nowhere. Does not know who needs them.
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

/** In the words of the linker, whoever passes them on. A name without folder: only those are looked for. */
const MISSING = /(?:^|\s)([^\s:/]+\.so[^\s:/]*): cannot open shared object file/;

/** cuDNN is asked for by name when a model needs it; its parts ask for each other in the same way, the first for all. */
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

/** Tries again as often as a library that was missing is found. @throws what the last attempt threw */
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

/** Nothing when the linker finds cuDNN, or nobody does: only some models need it. */
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
