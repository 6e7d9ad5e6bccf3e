/**
 * What tells a model from all others: its name, or with namespacing the repository it lies in and its name. Keys are texts, so
 * that maps and locks take them; without namespacing a key is the name itself. Knows no repository.
 */
import { ServerError } from "../core/server-error.ts";

/** Stands in no path and no name. */
const SEPARATOR = "\0";

/** `namespace`: path of the repository, "" = there are no namespaces. */
export function modelKey(namespace: string, name: string): string {
  return namespace === "" ? name : namespace + SEPARATOR + name;
}

export function nameOfKey(key: string): string {
  return key.slice(key.indexOf(SEPARATOR) + 1);
}

/** "" without one. */
export function namespaceOfKey(key: string): string {
  const end = key.indexOf(SEPARATOR);
  return end < 0 ? "" : key.slice(0, end);
}

/** For logs. */
export function modelKeyText(key: string): string {
  return key.replace(SEPARATOR, "::");
}

/** What a plain name gets that several repositories have. */
export function ambiguousName(name: string, count: number): ServerError {
  const text = `There are ${count} identifiers of model '${name}' in global map, model namespace must be provided to resolve ambiguity.`;
  return new ServerError("invalid_argument", text);
}
