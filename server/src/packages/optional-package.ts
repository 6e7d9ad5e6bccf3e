/**
 * Loads modules of the packages that only some installations have. The server names them here and imports none of them
 * statically, so that it starts without them.
 */
import { ServerError } from "../core/server-error.ts";

export type OptionalPackage =
  | "@nereid/images"
  | "@nereid/object-stores"
  | "@nereid/offline"
  | "@nereid/onnx-tools"
  | "@nereid/retrieval";

/**
 * Imports `<packageName>/<module>`. `Module` is the contract that the module satisfies; the package's own types check it.
 * @throws ServerError unavailable, naming the package and how to install it, when the package is not installed
 */
export async function importOptional<Module>(
  packageName: OptionalPackage,
  module: string,
  neededBy: string,
): Promise<Module> {
  try {
    return (await import(`${packageName}/${module}`)) as Module;
  } catch (error) {
    throw asMissing(error, packageName, neededBy);
  }
}

/** The error of a failed import; a ServerError that names the package when the package itself is missing. */
export function asMissing(error: unknown, packageName: string, neededBy: string): unknown {
  if (!isMissing(error, packageName)) return error;
  const text = `${neededBy} needs the package ${packageName}, which is not installed: npm install ${packageName}`;
  return new ServerError("unavailable", text, { cause: error });
}

function isMissing(error: unknown, packageName: string): boolean {
  if (!(error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND")) return false;
  return error.message.includes(`'${packageName}'`);
}
