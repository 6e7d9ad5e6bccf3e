/**
 * The location of a repository: a local folder, or a remote one whose models are fetched. Both give a folder to load a
 * model from, and a release callback.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ServerError } from "../../core/server-error.ts";
import { fingerprintOf, listModels } from "./model-folder.ts";
import { isSafeModelName } from "./path-containment.ts";
import type { RemoteRepository } from "./remote-repository.ts";

/** A model's files, ready to be loaded. */
export interface LocalizedModel {
  /** Folder that contains the model's folder. */
  readonly repositoryPath: string;
  /** Fingerprint of a copy; undefined for the original folder. */
  readonly copied: { readonly origin: string; readonly fingerprint: string } | undefined;
  /** Name of the model's folder; absent: that of the model. */
  readonly folderName?: string;
  /** Releases the files. Never rejects. */
  release(): Promise<void>;
}

export interface RepositoryLocation {
  /** As the user wrote it; the namespace of its models. */
  readonly path: string;
  /** Name of the model that stands in a folder of another name; absent: each has the name of its folder. */
  readonly mappedName?: string;
  /** True when changes become visible through `refresh` only. */
  readonly isRemote: boolean;
  /** @throws ServerError when the location is unreachable or invalid */
  refresh(): Promise<void>;
  models(): readonly string[];
  has(model: string): boolean;
  /** Changes with any file of the model. @throws when it cannot be read */
  fingerprint(model: string): string;
  /** @throws ServerError: then nothing of the model remains on disk */
  bring(model: string): Promise<LocalizedModel>;
  close(): Promise<void>;
}

const NOTHING = async (): Promise<void> => undefined;

export function localLocation(path: string): RepositoryLocation {
  return {
    path,
    isRemote: false,
    refresh: NOTHING,
    models: () => listModels(path),
    has: (model) => isSafeModelName(model) && existsSync(join(path, model)),
    fingerprint: (model) => fingerprintOf(join(path, model)),
    bring: async () => ({ repositoryPath: path, copied: undefined, release: NOTHING }),
    close: NOTHING,
  };
}

/** A folder of a repository whose model is served under another name. */
export interface ModelMapping {
  readonly folder: string;
  readonly name: string;
}

/** A local folder in which one model has another name than its folder. Source: core, `RegisterModelRepository`. */
export function mappedLocation(path: string, { folder, name }: ModelMapping): RepositoryLocation {
  const inner = localLocation(path);
  const folderOf = (model: string): string => (model === name ? folder : model);
  const isOther = (model: string): boolean => model !== folder && model !== name;
  return {
    ...inner,
    mappedName: name,
    models: () => [...inner.models().filter(isOther), name].sort(),
    has: (model) => (model === name || isOther(model)) && inner.has(folderOf(model)),
    fingerprint: (model) => inner.fingerprint(folderOf(model)),
    bring: async (model) => ({ ...(await inner.bring(model)), folderName: folderOf(model) }),
  };
}

export function remoteLocation(remote: RemoteRepository): RepositoryLocation {
  const { url } = remote;
  return {
    path: url,
    isRemote: true,
    refresh: () => wrapError(remote.refresh()),
    models: () => remote.models().filter(isSafeModelName),
    has: (model) => remote.models().includes(model) && isSafeModelName(model),
    fingerprint: (model) => remote.fingerprint(model) ?? "",
    async bring(model) {
      const { repositoryPath, fingerprint, release } = await wrapError(remote.localize(model));
      return { repositoryPath, copied: { origin: `${url}/${model}`, fingerprint }, release };
    },
    close: () => remote.close(),
  };
}

/** A store's own reason: it holds no secrets, and a client who asks for a load may read it. */
export class StoreFailure extends ServerError {}

/** System errors of a network that may be there again (Node, "Common system errors"). */
const AWAY = /^E(?:CONN|HOST|NET|PIPE|TIMEDOUT|NOTFOUND|AI_AGAIN)/;

/** @throws StoreFailure: unavailable when the same may work later, else internal */
export async function wrapError<T>(action: Promise<T>): Promise<T> {
  try {
    return await action;
  } catch (error) {
    if (error instanceof ServerError) throw error;
    const text = error instanceof Error ? error.message : String(error);
    const fix = error instanceof Error && "fix" in error && typeof error.fix === "string" ? `. ${error.fix}` : "";
    throw new StoreFailure(isAway(error) ? "unavailable" : "internal", `${text}${fix}`, { cause: error });
  }
}

function isAway(thrown: unknown): boolean {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    if (error.name === "TransientFailure") return true; // of the package of stores
    if ("code" in error && AWAY.test(String(error.code))) return true;
  }
  return false;
}
