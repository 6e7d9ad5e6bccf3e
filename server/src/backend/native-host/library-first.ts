/** Lets a model that brings a shared library run on it, and not on the backend of the same name. */
import type { Backend, ModelSource } from "../backend.ts";
import { findLibrary } from "./find-library.ts";

/** `directory`: also searched for the library, after the model's own folders; undefined: it is not. */
export function libraryFirst(backend: Backend, library: Backend, directory: string | undefined): Backend {
  return {
    name: backend.name,
    get gpus() {
      return backend.gpus;
    },
    async delegate(source: ModelSource) {
      return findLibrary(source, directory) === undefined ? backend.delegate?.(source) : library;
    },
    describe: async (source) => backend.describe?.(source),
    load: (source) => backend.load(source),
    close: async () => {
      await Promise.all([backend.close(), library.close()]);
    },
  };
}
