/**
 * Names, folders and repository names of the models of a SageMaker multi-model endpoint
 * (https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html).
 */
import { readdirSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { invalidArgument, type ServerError } from "../../../core/server-error.ts";

export interface NamedModel {
  /** As SageMaker says it. */
  readonly url: string;
  /** As the repository has it. */
  readonly name: string;
}

const REFUSED_ROOTS = ["/dev", "/proc", "/sys"];

/**
 * The model at a folder, or in the only folder within it.
 * @throws ServerError for what is no model of one of the repositories
 */
export function modelAt(url: string, repositories: readonly string[]): NamedModel {
  const place = `'${url}'`;
  const refuse = (why: string): ServerError => invalidArgument(`cannot load from ${place}: ${why}`);
  const path = realPath(resolve(url));
  const isRefused = (where: string): boolean =>
    REFUSED_ROOTS.some((root) => where === root || where.startsWith(`${root}/`));
  if (isRefused(resolve(url)) || (path !== undefined && isRefused(path))) throw refuse("not a place for models");
  if (path === undefined || !statSync(path).isDirectory()) throw refuse("expected a folder, found none");
  const known = repositories.map((each) => realPath(each));
  const folders = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const [only] = folders;
  if (known.includes(dirname(path))) return { url, name: basename(path) };
  if (known.includes(path) && only !== undefined && folders.length === 1) return { url, name: only.name };
  throw refuse(
    `expected a model in one of the server's repositories (${repositories.join(", ")}), or one with one model`,
  );
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(join(path));
  } catch {
    return undefined;
  }
}
