/**
 * Names, folders and repositories of the models of a SageMaker multi-model endpoint. SageMaker puts each model into
 * /opt/ml/models/<hash>/model, so each becomes a repository of its own with one mapped name.
 * Source: https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html and
 * triton-inference-server/server, sagemaker_server.cc, `SageMakerMMELoadModel`.
 */
import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { invalidArgument, type ServerError } from "../../../core/server-error.ts";

export interface NamedModel {
  /** As answers tell it: the repository of the model, or its folder in a repository of the server. */
  readonly url: string;
  /** As the repository has it. */
  readonly name: string;
  /** Set: a repository of its own, which is registered while the model is loaded. */
  readonly repository?: { readonly path: string; readonly folder: string };
}

export interface ModelRoots {
  /** Repositories of the server. */
  readonly repositories: readonly string[];
  /** The folder into which SageMaker puts models. */
  readonly sagemaker: string;
}

const REFUSED_ROOTS = ["/dev", "/proc", "/sys"];
/** Behind the root: a hash, `model`, and the folder of a customer if there is one. */
const MODEL_PATH = /^\/[\w.-]+\/model(\/[\w.-]+)?$/;
const ENSEMBLE = /platform:\s*"ensemble"/;

/**
 * The model at a folder, or in a folder within it. `name`: as SageMaker wants it called.
 * @throws ServerError for a place that is neither SageMaker's nor in one of the repositories
 */
export function modelAt(url: string, name: string, { repositories, sagemaker }: ModelRoots): NamedModel {
  const place = `'${url}'`;
  const refuse = (why: string): ServerError => invalidArgument(`cannot load from ${place}: ${why}`);
  const given = resolve(url);
  const path = realPath(given);
  const isRefused = (where: string): boolean =>
    REFUSED_ROOTS.some((root) => where === root || where.startsWith(`${root}/`));
  if (isRefused(given) || (path !== undefined && isRefused(path))) throw refuse("not a place for models");
  if (path === undefined || !statSync(path).isDirectory()) throw refuse("expected a folder, found none");
  if (given.startsWith(`${sagemaker}/`) && MODEL_PATH.test(given.slice(sagemaker.length))) {
    const repository = ownRepository(given);
    if (repository === undefined) throw refuse("expected a model, or folders of models; it has none");
    return { url: repository.path, name, repository };
  }
  const known = repositories.map((each) => realPath(each));
  const folders = foldersOf(path);
  const [only] = folders;
  if (known.includes(dirname(path))) return { url, name: basename(path) };
  if (known.includes(path) && only !== undefined && folders.length === 1) return { url, name: only };
  throw refuse(
    `expected a path of the form ${sagemaker}/<hash>/model[/<subdir>], or a model in one of the server's repositories (${repositories.join(", ")})`,
  );
}

/** The model itself, or of several models within the ensemble that calls the others, else the last. */
function ownRepository(path: string): NamedModel["repository"] {
  const folders = foldersOf(path);
  const isModel = existsSync(join(path, "config.pbtxt")) || folders.every((folder) => /^\d+$/.test(folder));
  if (isModel && folders.length > 0) return { path: dirname(path), folder: basename(path) };
  const folder = folders.find((each) => isEnsemble(join(path, each, "config.pbtxt"))) ?? folders.at(-1);
  return folder === undefined ? undefined : { path, folder };
}

function isEnsemble(configPath: string): boolean {
  return existsSync(configPath) && ENSEMBLE.test(readFileSync(configPath, "utf8"));
}

function foldersOf(path: string): string[] {
  return readdirSync(path)
    .filter((name) => statSync(join(path, name), { throwIfNoEntry: false })?.isDirectory() === true)
    .sort();
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}
