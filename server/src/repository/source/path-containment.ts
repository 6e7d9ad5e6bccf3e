/** Path containment: relative paths from users and clients must stay inside a folder, also through links (CWE-22). */
import { realpathSync } from "node:fs";
import { isAbsolute, join, sep } from "node:path";
import { invalidArgument, ServerError } from "../../core/server-error.ts";

/**
 * The real path of `relative` inside `root`, links followed. A model folder may be a link; paths inside it must stay
 * within its target. @throws ServerError invalid_argument when it leaves the folder, not_found when there is no such
 * file
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
    throw invalidArgument(`'${relative}' leaves the model's folder`);
  }
  return path;
}

/** Rejects paths whose spelling leaves a folder. @throws ServerError invalid_argument */
export function expectRelative(path: string): void {
  const parts = path.split(/[/\\]/);
  if (path === "" || path.includes("\0") || isAbsolute(path) || parts.includes("..")) {
    throw invalidArgument(`'${path.replaceAll("\0", "\\0")}' is no relative path inside the model's folder`);
  }
}

/** Valid as a folder name: dots inside are fine, "." and ".." are not. */
export function isSafeModelName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && !/[/\\\0]/.test(name);
}

/** The name of a load request. @throws ServerError invalid_argument in Triton's words */
export function expectModelName(name: string): void {
  const trimmed = name.trim();
  if (trimmed === "") throw invalidArgument("Model name cannot be empty. Please enter a valid name to deploy.");
  if (isSafeModelName(trimmed)) return;
  throw invalidArgument(`invalid model name '${name}', model name must not contain path traversal characters`);
}
