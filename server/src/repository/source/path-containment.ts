/** Paths that users or clients name inside a folder, and the check that they stay there. */
import { realpathSync } from "node:fs";
import { isAbsolute, join, sep } from "node:path";
import { ServerError } from "../../core/server-error.ts";

/**
 * The real path of `relative` under `root`, links followed. A model folder may itself be a link to somewhere else; what is
 * named inside it must stay inside the place it points to.
 * @throws ServerError invalid_argument when it leaves the folder, not_found when there is no such file
 */
export function resolveContained(root: string, relative: string): string {
  expectRelative(relative);
  let base: string;
  let path: string;
  try {
    base = realpathSync(root);
    path = realpathSync(join(root, relative));
  } catch (error) {
    throw new ServerError("not_found", `no file '${relative}' in the model's folder`, { cause: error });
  }
  if (path !== base && !path.startsWith(base + sep)) {
    throw new ServerError("invalid_argument", `'${relative}' leaves the model's folder`);
  }
  return path;
}

/** Refuses what could leave a folder by its spelling alone. @throws ServerError invalid_argument */
export function expectRelative(path: string): void {
  const parts = path.split(/[/\\]/);
  if (path === "" || path.includes("\0") || isAbsolute(path) || parts.includes("..")) {
    throw new ServerError(
      "invalid_argument",
      `'${path.replaceAll("\0", "\\0")}' is no relative path inside the model's folder`,
    );
  }
}

/** A model's name becomes a folder's name. Dots inside are fine, the two special names are not. */
export function isSafeModelName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && !/[/\\\0]/.test(name);
}
