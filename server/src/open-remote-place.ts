/** A model repository that is not on this machine, opened by its address. Composition root of what only those need who name one. */
import process from "node:process";
import type { ServerLog } from "./observe/log.ts";
import { initRepository } from "./offline/model-repository/init-repo.ts";
import { Reporter } from "./offline/progress.ts";
import { type RepositoryPlace, remotePlace, worded } from "./repository/repository-place.ts";
import { openRepository } from "./stores/open-repository.ts";

const MAX_BATCH_SIZE = 32;

/** @throws ServerError for an address or a setting that makes no sense */
export async function openRemotePlace(url: string, isWatched: boolean, log: ServerLog): Promise<RepositoryPlace> {
  const remote = openRepository({ url, env: process.env, log, isWatched, arrangeModel });
  return remotePlace(await worded(remote));
}

/** The models around a language model that take and give text. They refer to its files where they are. */
async function arrangeModel(modelFolder: string, repository: string, signal: AbortSignal): Promise<void> {
  await initRepository({
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
}
