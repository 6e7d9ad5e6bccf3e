/**
 * Loads modules of the packages that only some installations have. The server names them here and imports none of them
 * statically, so that it starts without them.
 */
import { ServerError } from "../core/server-error.ts";

export type OptionalPackage =
  | "@nereid/console"
  | "@nereid/images"
  | "@nereid/mcp"
  | "@nereid/object-stores"
  | "@nereid/offline"
  | "@nereid/onnx-tools"
  | "@nereid/perf"
  | "@nereid/retrieval"
  | "@redis/client";

/** A package that this installation lacks. The message is one line with the command that installs it. */
export class MissingPackageError extends ServerError {
  constructor(packageName: string, neededBy: string, options?: ErrorOptions) {
    const text = `${neededBy} needs the package ${packageName}, which is not installed: npm install ${packageName}`;
    super("unavailable", text, options);
    this.name = "MissingPackageError";
  }
}

/**
 * Imports `<packageName>/<module>`. `Module` is the contract that the module satisfies; the package's own types check it.
 * @throws MissingPackageError when the package is not installed
 */
export function importOptional<Module>(
  packageName: OptionalPackage,
  module: string,
  neededBy: string,
): Promise<Module> {
  return requirePackage(packageName, neededBy, async () => (await import(`${packageName}/${module}`)) as Module);
}

/**
 * Runs an import that leads to an optional package, directly or through a module of ours.
 * @throws MissingPackageError when the package is not installed
 */
export async function requirePackage<Module>(
  packageName: OptionalPackage,
  neededBy: string,
  load: () => Promise<Module>,
): Promise<Module> {
  try {
    return await load();
  } catch (error) {
    if (!isMissing(error, packageName)) throw error;
    throw new MissingPackageError(packageName, neededBy, { cause: error });
  }
}

/** True only when the package itself is missing, not a module that it imports. */
function isMissing(error: unknown, packageName: OptionalPackage): boolean {
  if (!(error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND")) return false;
  return error.message.includes(`'${packageName}'`);
}
