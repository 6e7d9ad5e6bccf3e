/**
 * Download destination: a plain folder. Partial files and metadata are kept in `.cache/huggingface/download`, as
 * huggingface_hub does. Verified files move into place together, so readers never see half a model.
 */
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { syncFolder, writeFileAtomically } from "../files/atomic-output.ts";
import { ToolError } from "../files/tool-error.ts";
import { type DownloadTarget, inPlacementOrder, placementRank } from "./download-target.ts";
import { isContentOf } from "./hash.ts";
import type { HubFile, HubListing } from "./listing.ts";

/** A file modified after its metadata is hashed again; file system clocks have this resolution in ms. */
const MARK_SLACK_MS = 1000;
const INCOMPLETE = ".incomplete";
const CHECKED = ".checked";
const STAGED = /^([0-9a-f]{24}\.[0-9a-f]+)\.(?:incomplete|checked)$/;

export class PlainFolder implements DownloadTarget {
  readonly path: string;
  readonly lockTarget: string;
  readonly #marks: string;
  readonly #listing: HubListing;

  constructor(path: string, listing: HubListing) {
    this.path = resolve(path);
    this.#marks = marksOf(this.path);
    this.lockTarget = this.#marks;
    this.#listing = listing;
  }

  partialPath(file: HubFile): string {
    return join(this.#marks, `${stagedName(file)}${INCOMPLETE}`);
  }

  checkedPath(file: HubFile): string {
    return join(this.#marks, `${stagedName(file)}${CHECKED}`);
  }

  async isThere(file: HubFile, verify: boolean, signal: AbortSignal): Promise<boolean> {
    if ((await sizeOf(this.checkedPath(file))) === file.bytes) return true;
    const path = join(this.path, file.path);
    if ((await sizeOf(path)) !== file.bytes) return false;
    if (!verify && (await this.#isMarked(file, path))) return true;
    if (!(await isContentOf(path, file, signal))) return false;
    await this.#mark(file);
    return true;
  }

  async finish(files: readonly HubFile[]): Promise<void> {
    const waiting: HubFile[] = [];
    for (const file of files) if ((await sizeOf(this.checkedPath(file))) !== undefined) waiting.push(file);
    if (waiting.length === 0) return;
    const closed = await this.#closeModel(files);
    for (const file of inPlacementOrder([...new Set([...waiting, ...closed])])) {
      const path = join(this.path, file.path);
      await mkdir(dirname(path), { recursive: true });
      await rename(this.checkedPath(file), path);
      await this.#mark(file);
      await syncFolder(dirname(path));
    }
    await this.#removeAbandoned();
  }

  /** Files that identify a model are moved away during an update and return last. Outdated ones are removed. */
  async #closeModel(files: readonly HubFile[]): Promise<HubFile[]> {
    const closed: HubFile[] = [];
    for (const file of files) {
      const path = join(this.path, file.path);
      if (placementRank(file.path) === 0 || (await sizeOf(path)) === undefined) continue;
      if ((await sizeOf(this.checkedPath(file))) !== undefined) await rm(path);
      else {
        await rename(path, this.checkedPath(file));
        closed.push(file);
      }
    }
    return closed;
  }

  /** Partial files of earlier revisions, which no run will resume. */
  async #removeAbandoned(): Promise<void> {
    const known = new Set(this.#listing.files.map(stagedName));
    for (const name of await readdir(this.#marks)) {
      const staged = STAGED.exec(name)?.[1];
      if (staged !== undefined && !known.has(staged)) await rm(join(this.#marks, name), { force: true });
    }
  }

  /** Commit, hash and time, one per line: the metadata format of huggingface_hub. */
  async #mark(file: HubFile): Promise<void> {
    const path = markPath(this.#marks, file);
    await mkdir(dirname(path), { recursive: true });
    await writeFileAtomically(path, `${this.#listing.commit}\n${file.hash.hex}\n${Date.now() / 1000}\n`);
  }

  async #isMarked(file: HubFile, path: string): Promise<boolean> {
    const text = await readFile(markPath(this.#marks, file), "utf8").catch(() => "");
    const [, hex, seconds] = text.split("\n");
    const { mtimeMs } = await stat(path);
    return hex === file.hash.hex && mtimeMs <= Number(seconds) * 1000 + MARK_SLACK_MS;
  }
}

/** The revision of a finished download in a folder. @throws ToolError when there is none, or an interrupted one */
export async function expectDownloaded(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  if (!names.some((name) => name !== ".cache")) {
    throw new ToolError(`There is no download in ${folder}, and the network may not be used`, {
      fix: "Run it once without --offline",
    });
  }
  const staged = await readdir(marksOf(resolve(folder))).catch(() => []);
  if (staged.some((name) => name.endsWith(INCOMPLETE) || name.endsWith(CHECKED))) {
    throw new ToolError(`The download in ${folder} is not complete, and the network may not be used`, {
      fix: "Run it again without --offline: it resumes",
    });
  }
}

function marksOf(folder: string): string {
  return join(folder, ".cache", "huggingface", "download");
}

/** File names may reach the limit of the file system, so the partial file is named by a hash. */
function stagedName({ path, hash }: HubFile): string {
  return `${createHash("sha256").update(path).digest("hex").slice(0, 24)}.${hash.hex}`;
}

function markPath(marks: string, { path }: HubFile): string {
  return join(marks, `${path}.metadata`);
}

async function sizeOf(path: string): Promise<number | undefined> {
  return stat(path).then(
    (found) => (found.isFile() ? found.size : undefined),
    () => undefined,
  );
}
