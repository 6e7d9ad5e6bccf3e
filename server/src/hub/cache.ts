/**
 * The cache folder shared with huggingface_hub: blobs by hash, a snapshot folder of links per commit, a ref file per
 * branch. Source: huggingface_hub documentation, "Understand caching". A new snapshot appears whole.
 */
import { lstat, mkdir, readdir, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { partialPath, syncFolder, writeFileAtomically } from "../files/atomic-output.ts";
import { ToolError } from "../files/tool-error.ts";
import { type DownloadTarget, inPlacementOrder } from "./download-target.ts";
import { isContentOf } from "./hash.ts";
import type { HubFile } from "./listing.ts";
import { cacheFolderName, type HubRepo, isCommit } from "./names.ts";

export class HubCache implements DownloadTarget {
  readonly path: string;
  readonly lockTarget: string;
  readonly #root: string;
  readonly #revision: string;
  readonly #commit: string;

  constructor(cacheFolder: string, repo: HubRepo, revision: string, commit: string) {
    this.#root = join(resolve(cacheFolder), cacheFolderName(repo));
    this.#revision = revision;
    this.#commit = commit;
    this.path = join(this.#root, "snapshots", commit);
    this.lockTarget = this.#root;
  }

  partialPath(file: HubFile): string {
    return `${this.checkedPath(file)}.incomplete`;
  }

  checkedPath(file: HubFile): string {
    return join(this.#root, "blobs", file.hash.hex);
  }

  async isThere(file: HubFile, verify: boolean, signal: AbortSignal): Promise<boolean> {
    const blob = this.checkedPath(file);
    const size = await stat(blob).then(
      (found) => found.size,
      () => undefined,
    );
    if (size === file.bytes && !(verify && !(await isContentOf(blob, file, signal)))) return true;
    await rm(blob, { force: true });
    return false;
  }

  async finish(files: readonly HubFile[]): Promise<void> {
    if (await exists(this.path)) await this.#link(this.path, files);
    else await this.#createSnapshot(files);
    if (isCommit(this.#revision)) return;
    const ref = refPath(this.#root, this.#revision);
    await mkdir(dirname(ref), { recursive: true });
    await writeFileAtomically(ref, this.#commit);
  }

  async #createSnapshot(files: readonly HubFile[]): Promise<void> {
    const partial = partialPath(this.path);
    await rm(partial, { recursive: true, force: true });
    await mkdir(partial, { recursive: true });
    await this.#link(partial, files);
    await rename(partial, this.path);
    await syncFolder(dirname(this.path));
  }

  async #link(snapshot: string, files: readonly HubFile[]): Promise<void> {
    for (const file of inPlacementOrder(files)) {
      const path = join(snapshot, file.path);
      if (
        await stat(path).then(
          () => true,
          () => false,
        )
      )
        continue;
      await mkdir(dirname(path), { recursive: true });
      await rm(path, { force: true }); // a dangling link
      await symlink(relative(dirname(path), this.checkedPath(file)), path);
    }
    await syncFolder(snapshot);
  }
}

/** The snapshot folder of a revision that was fetched before. @throws ToolError when there is none */
export async function cachedSnapshot(cacheFolder: string, repo: HubRepo, revision: string): Promise<string> {
  const root = join(resolve(cacheFolder), cacheFolderName(repo));
  const commit = isCommit(revision)
    ? revision
    : (await readFile(refPath(root, revision), "utf8").catch(() => "")).trim();
  const path = join(root, "snapshots", commit);
  if (!isCommit(commit) || !(await exists(path))) {
    throw new ToolError(`${repo.id} at '${revision}' is not in the cache ${root}, and the network may not be used`, {
      fix: "Run it once without --offline, or point HF_HOME at the cache that has it",
    });
  }
  await expectContents(path);
  return path;
}

/** Each link must lead to a blob. */
async function expectContents(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await expectContents(path);
    else if (
      !(await stat(path).then(
        () => true,
        () => false,
      ))
    ) {
      throw new ToolError(`${path} leads to a file that is not there, and the network may not be used`, {
        fix: "Run it again without --offline: what is missing is fetched",
      });
    }
  }
}

function refPath(root: string, revision: string): string {
  return join(root, "refs", ...revision.split("/"));
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}
