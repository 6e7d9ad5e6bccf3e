/** A backend whose code is in a package of its own, loaded with the first model that names it. */
import type { Backend } from "../backend/backend.ts";
import { importOptional, type OptionalPackage } from "./optional-package.ts";

/** Contract of a module that brings a backend. */
export interface BackendModule {
  createBackend(): Backend;
}

/** `name` is what users write in `backend:`; `module` is the package's module that exports `createBackend`. */
export function packagedBackend(name: string, packageName: OptionalPackage, module: string): Backend {
  let loading: Promise<Backend> | undefined;
  const open = async (): Promise<Backend> => {
    const { createBackend } = await importOptional<BackendModule>(packageName, module, `the backend "${name}"`);
    return createBackend();
  };
  const loaded = (): Promise<Backend> => {
    loading ??= open().catch((error: unknown) => {
      loading = undefined; // the package may be installed by the next load
      throw error;
    });
    return loading;
  };
  return {
    name,
    load: async (source) => (await loaded()).load(source),
    close: async () => {
      if (loading !== undefined) await (await loading.catch(() => undefined))?.close();
    },
  };
}
