/** The model repositories that a server is started with: folders of this machine, and what is elsewhere. */
import { statSync } from "node:fs";
import { creationProblem } from "../config/flags/parse-server-flags.ts";
import type { ServerOptions } from "../config/flags/server-options.ts";
import { invalidArgument, ServerError } from "../core/server-error.ts";
import type { ServerLog } from "../observe/log.ts";
import { localLocation, type RepositoryLocation } from "../repository/source/repository-location.ts";

/** In the order of the options. The code for what is elsewhere is loaded when it is asked for. @throws ServerError */
export async function openPlaces(options: ServerOptions, log: ServerLog): Promise<RepositoryLocation[]> {
  const { repository } = options;
  const problem = creationProblem(options);
  if (problem !== undefined) throw problem;
  for (const path of repository.paths) if (!isRemote(path)) expectRepository(path);
  const places: RepositoryLocation[] = [];
  for (const path of repository.paths) {
    if (!isRemote(path)) {
      places.push(localLocation(path));
      continue;
    }
    const { openRemotePlace } = await import("./remote-repository.ts");
    places.push(await openRemotePlace(path, repository.controlMode === "poll", log));
  }
  return places;
}

function isRemote(path: string): boolean {
  return /^[a-z][a-z0-9]*:\/\//.test(path);
}

/** @throws ServerError with the words that start scripts look for */
function expectRepository(path: string): void {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) throw new ServerError("internal", `failed to stat file ${path}`);
  if (!stat.isDirectory()) throw invalidArgument("repository path is not a valid directory");
}
