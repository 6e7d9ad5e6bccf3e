/**
 * Models in the cache that huggingface_hub's tools share: which there are, their sizes, and the removal of one. Source:
 * huggingface_hub documentation, "Understand caching": blobs, snapshots of links, refs.
 */
import { lstat, readdir, readFile, readlink, realpath, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

export interface CachedFile {
  /** Inside the snapshot. */
  readonly path: string;
  readonly bytes: number;
}

export interface CachedRepo {
  /** `organisation/name`. */
  readonly id: string;
  /** Folder of the whole repository, all revisions together. */
  readonly folder: string;
  /** Files of the revision that `main` names, otherwise of the newest. */
  readonly snapshot: string;
  readonly files: readonly CachedFile[];
  readonly modifiedMs: number;
}

const PREFIX = "models--";

/** Repositories with a readable snapshot, by name. */
export async function cachedRepos(cacheFolder: string): Promise<readonly CachedRepo[]> {
  const names = await readdir(cacheFolder).catch(() => []);
  const repos = await Promise.all(
    names.filter((name) => name.startsWith(PREFIX)).map((name) => readRepo(join(cacheFolder, name))),
  );
  return repos.flat().sort((a, b) => (a.id < b.id ? -1 : 1));
}

async function readRepo(folder: string): Promise<readonly CachedRepo[]> {
  const snapshot = await currentSnapshot(folder);
  if (snapshot === undefined) return [];
  const paths = await readdir(snapshot, { recursive: true });
  const found = await Promise.all(paths.map((path) => fileOf(snapshot, path)));
  const files = found.flat();
  const { mtimeMs } = await stat(snapshot);
  const id = basename(folder).slice(PREFIX.length).replace("--", "/");
  return files.length === 0 ? [] : [{ id, folder, snapshot, files, modifiedMs: mtimeMs }];
}

async function currentSnapshot(folder: string): Promise<string | undefined> {
  const main = (await readFile(join(folder, "refs", "main"), "utf8").catch(() => "")).trim();
  const names = await readdir(join(folder, "snapshots")).catch((): string[] => []);
  const whole = names.filter((name) => !name.startsWith("."));
  if (whole.includes(main)) return join(folder, "snapshots", main);
  const times = await Promise.all(whole.map(async (name) => (await stat(join(folder, "snapshots", name))).mtimeMs));
  const newest = whole[times.indexOf(Math.max(...times))];
  return newest === undefined ? undefined : join(folder, "snapshots", newest);
}

/** A link that leads nowhere is no file. */
async function fileOf(snapshot: string, path: string): Promise<readonly CachedFile[]> {
  const stats = await stat(join(snapshot, path)).catch(() => undefined);
  return stats?.isFile() === true ? [{ path, bytes: stats.size }] : [];
}

/** Bytes of all blobs, of unfinished ones too. */
export async function bytesOf(folder: string): Promise<number> {
  const paths = await readdir(folder, { recursive: true }).catch((): string[] => []);
  const sizes = await Promise.all(paths.map(async (path) => sizeOf(join(folder, path))));
  return sizes.reduce((sum, size) => sum + size, 0);
}

async function sizeOf(path: string): Promise<number> {
  const stats = await lstat(path).catch(() => undefined);
  return stats?.isFile() === true ? stats.size : 0;
}

/** All revisions, with the locks that huggingface_hub keeps beside. */
export async function removeRepo(cacheFolder: string, { folder }: CachedRepo): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await rm(join(cacheFolder, ".locks", basename(folder)), { recursive: true, force: true });
}

/** Files of the current revision, and their contents unless another link leads there. */
export async function removeFiles({ folder, snapshot }: CachedRepo, paths: readonly string[]): Promise<void> {
  const blobs = await Promise.all(paths.map((path) => realpath(join(snapshot, path))));
  for (const path of paths) await rm(join(snapshot, path), { force: true });
  const linked = await linkedBlobs(join(folder, "snapshots"));
  for (const blob of blobs) {
    const isOfCache = dirname(blob) === (await realpath(join(folder, "blobs")).catch(() => ""));
    if (isOfCache && !linked.has(blob)) await rm(blob, { force: true });
  }
}

async function linkedBlobs(snapshots: string): Promise<ReadonlySet<string>> {
  const paths = await readdir(snapshots, { recursive: true });
  const targets = await Promise.all(
    paths.map(async (path) => {
      const link = join(snapshots, path);
      const target = await readlink(link).catch(() => undefined);
      return target === undefined ? undefined : realpath(link).catch(() => undefined);
    }),
  );
  return new Set(targets.filter((target) => target !== undefined));
}
