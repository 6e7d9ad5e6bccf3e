/**
 * Groups objects by model and makes a fingerprint that changes with any of them. Source: Triton documentation, "Model
 * Repository". Pure.
 */
import type { Listing, StoredObject } from "./object-store.ts";

/** Paths begin with the name of the model. */
export interface ModelObjects {
  readonly objects: readonly StoredObject[];
  readonly folders: readonly string[];
}

/** By first path component; files outside folders belong to no model. */
export function groupByModel({ objects, folders }: Listing): ReadonlyMap<string, ModelObjects> {
  const models = new Map<string, { objects: StoredObject[]; folders: string[] }>();
  const modelOf = (path: string): { objects: StoredObject[]; folders: string[] } => {
    const name = path.split("/", 1)[0] ?? "";
    let model = models.get(name);
    if (model === undefined) {
      model = { objects: [], folders: [] };
      models.set(name, model);
    }
    return model;
  };
  for (const object of objects) if (object.path.includes("/")) modelOf(object.path).objects.push(object);
  for (const folder of folders) modelOf(folder).folders.push(folder);
  return models;
}

/** One line per object: path inside the model's folder, length, version. */
export function objectsFingerprint(model: string, { objects, folders }: ModelObjects): string {
  const inner = (path: string): string => path.slice(model.length + 1);
  const files = objects.map(({ path, bytes, version }) => `${inner(path)} ${bytes} ${version}`);
  const empty = folders.map(inner).filter((path) => path !== "");
  return [...files, ...empty.map((path) => `${path}/`)].sort().join("\n");
}
