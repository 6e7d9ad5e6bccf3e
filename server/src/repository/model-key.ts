/**
 * The unique key of a model: its name, prefixed by its repository when namespacing is on. Keys are strings, for maps
 * and locks; without namespacing a key is the name. Knows no repository.
 */
import type { ModelIndexEntry } from "../core/model-server.ts";
import { invalidArgument, type ServerError } from "../core/server-error.ts";

/** Separator that occurs in no path and no name. */
const SEPARATOR = "\0";

/** `namespace`: path of the repository, "" without namespaces. */
export function modelKey(namespace: string, name: string): string {
  return namespace === "" ? name : namespace + SEPARATOR + name;
}

export function nameOfKey(key: string): string {
  return key.slice(key.indexOf(SEPARATOR) + 1);
}

/** "" without a namespace. */
export function namespaceOfKey(key: string): string {
  const end = key.indexOf(SEPARATOR);
  return end < 0 ? "" : key.slice(0, end);
}

/** For logs. */
export function modelKeyText(key: string): string {
  return key.replace(SEPARATOR, "::");
}

/** The error for a plain name that several repositories have. */
export function ambiguousName(name: string, count: number): ServerError {
  const text = `There are ${count} identifiers of model '${name}' in global map, model namespace must be provided to resolve ambiguity.`;
  return invalidArgument(text);
}

/** The error for steps whose models no repository has, or several but not the ensemble's own. */
export function unavailableSteps(ensembleKey: string, keys: readonly string[]): ServerError {
  const names = [...new Set(keys.map(nameOfKey))].sort().join(", ");
  const ensemble = modelKeyText(ensembleKey);
  return invalidArgument(`ensemble ${ensemble} contains models that are not available or ambiguous: ${names}`);
}

/** The row of the index for a model that cannot be loaded, because without namespaces its name must be unique. */
export function inSeveralRepositories(name: string): ModelIndexEntry {
  return { name, state: "UNAVAILABLE", reason: "model appears in two or more repositories" };
}
