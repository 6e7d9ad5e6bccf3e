/**
 * Where a repository lies: a folder of this machine, or a place whose models are brought to it. What comes of a place is a folder
 * to load a model from, and the word when nobody needs it any more.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ServerError } from "../../core/server-error.ts";
import { fingerprintOf, listModels } from "./model-folder.ts";
import { isSafeModelName } from "./path-containment.ts";
import type { RemoteRepository } from "./remote-repository.ts";

/** A model's files as they are to be loaded. */
export interface ModelFiles {
  /** The folder in which the model's folder lies. */
  readonly repositoryPath: string;
  /** Of what is no copy: its own folder says it all. */
  readonly copied: { readonly origin: string; readonly fingerprint: string } | undefined;
  /** Nobody uses them any more. Never rejects. */
  release(): Promise<void>;
}

export interface RepositoryLocation {
  /** As the user wrote it; the namespace of its models. */
  readonly path: string;
  /** True when `refresh` is what sees changes. */
  readonly isRemote: boolean;
  /** @throws ServerError when the place cannot be reached or is none */
  refresh(): Promise<void>;
  models(): readonly string[];
  has(model: string): boolean;
  /** Changes with any file of the model. @throws when it cannot be read */
  fingerprint(model: string): string;
  /** @throws ServerError: then nothing of the model is there */
  bring(model: string): Promise<ModelFiles>;
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

/** What a store says is for whoever runs the server; it holds no secrets. */
export async function wrapError<T>(action: Promise<T>): Promise<T> {
  try {
    return await action;
  } catch (error) {
    if (error instanceof ServerError) throw error;
    const text = error instanceof Error ? error.message : String(error);
    const fix = error instanceof Error && "fix" in error && typeof error.fix === "string" ? `. ${error.fix}` : "";
    throw new ServerError("internal", `${text}${fix}`, { cause: error });
  }
}
