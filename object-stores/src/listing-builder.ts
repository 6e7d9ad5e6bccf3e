/**
 * Collects the pages of a listing and maps object keys to checked paths relative to the store's root. Sources: the list
 * calls named in s3/s3-store.ts, gcs/gcs-store.ts and azure/azure-store.ts.
 */
import { TransientFailure } from "@nereid/server/files/http-exchange";
import { ToolError } from "@nereid/server/files/tool-error";
import { expectLength, expectPath, MAX_OBJECTS } from "./object-path.ts";
import type { Checksum, Listing, StoredObject } from "./object-store.ts";

export class ListingBuilder {
  readonly #where: string;
  readonly #prefix: string;
  readonly #objects: StoredObject[] = [];
  readonly #folders: string[] = [];

  /** `prefix` of the root, without leading and trailing slashes. */
  constructor(where: string, prefix: string) {
    this.#where = where;
    this.#prefix = prefix;
  }

  /** A key that ends in a slash stands for a folder. @throws ToolError for keys that must not become a path */
  addObject(key: string, bytes: number, version: string, checksum: Checksum | undefined): void {
    if (key.endsWith("/")) {
      this.addFolder(key);
      return;
    }
    const path = this.#pathOf(key);
    expectPath(path, this.#where);
    this.#objects.push({ path, bytes: expectLength(bytes, path, this.#where), version, checksum });
    if (this.#objects.length > MAX_OBJECTS) throw new ToolError(`${this.#where} has more than ${MAX_OBJECTS} objects`);
  }

  addFolder(key: string): void {
    const path = this.#pathOf(key).replace(/\/$/, "");
    if (path === "") return; // the root itself
    expectPath(path, this.#where);
    this.#folders.push(path);
  }

  build(): Listing {
    return { objects: this.#objects, folders: this.#folders };
  }

  #pathOf(key: string): string {
    return this.#prefix === "" ? key : key.slice(this.#prefix.length + 1);
  }
}

/** Object key of a path inside the root. */
export function keyOf(prefix: string, path: string): string {
  return [prefix, path].filter((part) => part !== "").join("/");
}

/** Like `keyOf`, for the content of a folder. */
export function folderPrefix(prefix: string, folder: string): string {
  const key = keyOf(prefix, folder);
  return key === "" ? "" : `${key}/`;
}

/** `read` gets the continuation token of the previous page; undefined or empty ends the listing. */
export async function readPages(
  where: string,
  read: (token: string | undefined) => Promise<string | undefined>,
): Promise<void> {
  let token: string | undefined;
  do {
    const next: string | undefined = (await read(token)) || undefined;
    if (next !== undefined && next === token) throw new TransientFailure(`${where}: the listing does not go on`);
    token = next;
  } while (token !== undefined);
}
