/** The repository on this machine that has a model. Part of the composition root. */
import { invalidArgument } from "../../core/server-error.ts";
import type { RepositoryLocation } from "../../repository/source/repository-location.ts";

/** @throws ServerError when no local repository has the model */
export function localFolderOf(places: readonly RepositoryLocation[], model: string): string {
  const place = places.find((each) => each.has(model));
  if (place === undefined) throw invalidArgument(`No repository has a model '${model}'`);
  if (!place.isRemote) return place.path;
  throw invalidArgument(`The files of '${model}' are not on this machine: its repository is ${place.path}`);
}
