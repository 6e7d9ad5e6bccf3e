/** A model repository that is elsewhere, opened by its address. Only servers that name such an address load this file. */
import process from "node:process";
import { Reporter } from "../files/progress.ts";
import type { ServerLog } from "../observe/log.ts";
import { importOptional } from "../packages/optional-package.ts";
import type { ArrangeModel, OpenRepositoryOptions, RemoteRepository } from "../repository/source/remote-repository.ts";
import { type RepositoryLocation, remoteLocation, wrapError } from "../repository/source/repository-location.ts";

const MAX_BATCH_SIZE = 32;

interface ObjectStores {
  openRepository(options: OpenRepositoryOptions): Promise<RemoteRepository>;
}

interface RepositoryWriter {
  initRepository(options: object): Promise<unknown>;
}

/** @throws ServerError for an address or a setting that makes no sense */
export async function openRemotePlace(url: string, isWatched: boolean, log: ServerLog): Promise<RepositoryLocation> {
  const stores = await importOptional<ObjectStores>(
    "@nereid/object-stores",
    "open-repository",
    `--model-repository=${new URL(url).protocol}//`,
  );
  return remoteLocation(
    await wrapError(stores.openRepository({ url, env: process.env, log, isWatched, arrangeModel })),
  );
}

/** Writes the models that take and give text around a language model. They refer to its files in place. */
const arrangeModel: ArrangeModel = async (modelFolder, repository, signal) => {
  const writer = await importOptional<RepositoryWriter>(
    "@nereid/offline",
    "repository/create/init-repo",
    "a language model of the hub",
  );
  await writer.initRepository({
    modelDir: modelFolder,
    tokenizerDir: undefined,
    repository,
    maxBatchSize: MAX_BATCH_SIZE,
    isDecoupled: true,
    others: new Map(),
    copiesModel: false,
    replaces: false,
    reporter: new Reporter({ mode: "quiet", command: "serve" }),
    signal,
  });
};
