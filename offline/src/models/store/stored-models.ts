/** All models of this user's caches by the names that `nereid run` takes, and how to remove one. */
import { readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { isObject } from "@nereid/server/core/json-object";
import type { HubSettings } from "@nereid/server/hub/settings";
import { isFirstGguf, labelOf, withParts } from "../name/choose-files.ts";
import { RegistryFiles } from "../ollama/registry-files.ts";
import { bytesOf, type CachedRepo, cachedRepos, removeFiles, removeRepo } from "./hub-cache.ts";
import type { ModelStore } from "./model-store.ts";

export interface StoredModel {
  readonly name: string;
  readonly format: "safetensors" | "gguf" | "name";
  readonly bytes: number;
  readonly modifiedMs: number;
  /** Place of its files; for a second name, the name that it stands for. */
  readonly at: string;
  /** Other programs use the files as well. */
  readonly isShared: boolean;
  remove(): Promise<void>;
}

/** Second names last. */
export async function storedModels(store: ModelStore, { cacheFolder }: HubSettings): Promise<readonly StoredModel[]> {
  const repos = await cachedRepos(cacheFolder);
  const ofHub = await Promise.all(repos.map((repo) => modelsOfRepo(repo, cacheFolder)));
  return [...ofHub.flat(), ...(await ofRegistries(store)), ...(await downloads(store)), ...(await secondNames(store))];
}

async function modelsOfRepo(repo: CachedRepo, cacheFolder: string): Promise<readonly StoredModel[]> {
  const paths = repo.files.map(({ path }) => path);
  const bytes = (chosen: readonly string[]): number =>
    repo.files.reduce((sum, file) => sum + (chosen.includes(file.path) ? file.bytes : 0), 0);
  const common = { modifiedMs: repo.modifiedMs, isShared: true };
  const ggufs = paths.filter(isFirstGguf).map((first): StoredModel => {
    const parts = withParts(first, paths);
    const remove = (): Promise<void> =>
      parts.length === paths.length ? removeRepo(cacheFolder, repo) : removeFiles(repo, parts);
    const name = `${repo.id}:${labelOf(first)}`;
    return { ...common, name, format: "gguf", bytes: bytes(parts), at: join(repo.snapshot, first), remove };
  });
  if (!paths.includes("config.json") || !paths.some((path) => path.endsWith(".safetensors"))) return ggufs;
  const whole: StoredModel = {
    ...common,
    name: repo.id,
    format: "safetensors",
    bytes: await bytesOf(join(repo.folder, "blobs")),
    at: repo.snapshot,
    remove: () => removeRepo(cacheFolder, repo),
  };
  return [whole, ...ggufs];
}

async function ofRegistries(store: ModelStore): Promise<readonly StoredModel[]> {
  const files = new RegistryFiles(store);
  const found = (await files.all()).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return Promise.all(
    found.map(async ({ name, folder, manifest }): Promise<StoredModel> => {
      const { mtimeMs } = await stat(folder);
      const remove = (): Promise<void> => files.remove(folder);
      const at = join(folder, "model.gguf");
      return { name, format: "gguf", bytes: manifest.model.bytes, modifiedMs: mtimeMs, at, isShared: false, remove };
    }),
  );
}

/** Files of URLs, each in a folder with a note of its address. */
async function downloads({ downloads: folder }: ModelStore): Promise<readonly StoredModel[]> {
  const names = await readdir(folder).catch((): string[] => []);
  const found = await Promise.all(names.map((name) => downloaded(join(folder, name))));
  return found.flat();
}

async function downloaded(folder: string): Promise<readonly StoredModel[]> {
  const source: unknown = JSON.parse(await readFile(join(folder, "source.json"), "utf8").catch(() => "null"));
  const file = (await readdir(folder)).find((name) => name.endsWith(".gguf"));
  if (!isObject(source) || typeof source.url !== "string" || file === undefined) return [];
  const { size, mtimeMs } = await stat(join(folder, file));
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true });
  const at = join(folder, file);
  return [{ name: source.url, format: "gguf", bytes: size, modifiedMs: mtimeMs, at, isShared: false, remove }];
}

async function secondNames(store: ModelStore): Promise<readonly StoredModel[]> {
  const aliases = await store.aliases();
  return [...aliases].map(([name, meant]) => ({
    name,
    format: "name" as const,
    bytes: 0,
    modifiedMs: 0,
    at: meant,
    isShared: false,
    async remove() {
      const now = await store.aliases();
      await store.writeAliases(new Map([...now].filter(([each]) => each !== name)));
    },
  }));
}

/** Prepared repositories that lead to the files of a model: useless without them. */
export async function removePrepared({ repositories }: ModelStore, path: string): Promise<void> {
  const names = await readdir(repositories).catch((): string[] => []);
  for (const name of names) {
    const config = join(repositories, name, "tensorrt_llm", "config.pbtxt");
    const text = await readFile(config, "utf8").catch(() => "");
    if (text.includes(`"${path}"`)) await rm(join(repositories, name), { recursive: true, force: true });
  }
}
