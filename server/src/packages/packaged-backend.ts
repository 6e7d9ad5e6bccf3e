/** A backend whose code is in a package of its own, loaded with the first model that names it. */
import type { Backend } from "../backend/backend.ts";
import { lazyBackend } from "../backend/lazy-backend.ts";
import { importOptional, type OptionalPackage } from "./optional-package.ts";

/** Contract of a module that brings a backend. */
export interface BackendModule {
  createBackend(): Backend;
}

/** `name` is what users write in `backend:`; `module` is the package's module that exports `createBackend`. */
export function packagedBackend(name: string, packageName: OptionalPackage, module: string): Backend {
  return lazyBackend(name, async () => {
    const { createBackend } = await importOptional<BackendModule>(packageName, module, `the backend "${name}"`);
    return createBackend();
  });
}
