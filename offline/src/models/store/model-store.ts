/**
 * Folders of this user's cache for models by name: prepared repositories, files that came from no hub, second names, and
 * records of running servers. Files of the Hugging Face hub stay in the cache that its own tools share. Pure, except for
 * the file of second names.
 */
import { createHash } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Environment } from "@nereid/server/core/environment";
import { writeFileAtomically } from "@nereid/server/files/atomic-output";

const HASH_DIGITS = 12;
const MAX_SLUG = 60;

export class ModelStore {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  /** A folder for the prepared repository of what `key` describes. */
  repository(name: string, key: unknown): string {
    return join(this.root, "repositories", keyedName(name, JSON.stringify(key)));
  }

  get repositories(): string {
    return join(this.root, "repositories");
  }

  /** A folder for the file of a URL. */
  download(url: URL): string {
    return join(this.root, "downloads", keyedName(url.pathname.split("/").at(-1) ?? "", url.href));
  }

  get downloads(): string {
    return join(this.root, "downloads");
  }

  /** Models of Ollama registries: a folder for each host, namespace, model and tag. */
  get registries(): string {
    return join(this.root, "registries");
  }

  /** One file for each server of this user that serves a model by name. */
  get running(): string {
    return join(this.root, "running");
  }

  /** Second names, from `nereid cp`, to the names that they stand for. */
  async aliases(): Promise<ReadonlyMap<string, string>> {
    const text = await readFile(this.#aliasFile, "utf8").catch(() => "{}");
    const values: unknown = JSON.parse(text);
    const entries = Object.entries(values ?? {});
    return new Map(entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"));
  }

  async writeAliases(aliases: ReadonlyMap<string, string>): Promise<void> {
    await mkdir(this.root, { recursive: true });
    await writeFileAtomically(this.#aliasFile, `${JSON.stringify(Object.fromEntries(aliases), null, 2)}\n`);
  }

  get #aliasFile(): string {
    return join(this.root, "names.json");
  }
}

/** `$XDG_CACHE_HOME/nereid/models`. */
export function openStore({ XDG_CACHE_HOME }: Environment, homeFolder: string): ModelStore {
  const cache = XDG_CACHE_HOME === undefined || XDG_CACHE_HOME === "" ? join(homeFolder, ".cache") : XDG_CACHE_HOME;
  return new ModelStore(join(cache, "nereid", "models"));
}

/** Readable, and different for different keys. */
function keyedName(name: string, key: string): string {
  const slug = name
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[-.]+/, "")
    .slice(-MAX_SLUG);
  return `${slug}-${createHash("sha256").update(key).digest("hex").slice(0, HASH_DIGITS)}`;
}
