/**
 * Downloads a snapshot of a Hugging Face repository: complete and verified, or not visible at all. Source: Hugging Face
 * Hub API, and huggingface_hub's folder layouts.
 */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { requireFreeBytes } from "../files/disk-space.ts";
import type { ProgressTask, Reporter } from "../files/progress.ts";
import { formatBytes, formatDuration } from "../files/progress-text.ts";
import { TargetLock } from "../files/target-lock.ts";
import { ToolError } from "../files/tool-error.ts";
import { cachedSnapshot, HubCache } from "./cache.ts";
import type { DownloadTarget } from "./download-target.ts";
import type { HubConnection } from "./http.ts";
import { fileUrl, type HubFile, type HubListing, listRepo } from "./listing.ts";
import type { HubRepo } from "./names.ts";
import { type FileFilter, wantedFiles } from "./patterns.ts";
import { expectDownloaded, PlainFolder } from "./plain-folder.ts";
import { withRetries } from "./retry.ts";
import type { HubSettings } from "./settings.ts";
import { partialBytes, transferFile } from "./transfer.ts";

export interface DownloadOptions {
  readonly repo: HubRepo;
  readonly revision: string;
  readonly filter: FileFilter;
  readonly settings: HubSettings;
  /** A plain folder; undefined: the standard cache. */
  readonly localFolder: string | undefined;
  /** Files fetched at the same time. */
  readonly numWorkers: number;
  /** Hash the content of files that are already present. */
  readonly verify: boolean;
  readonly dryRun: boolean;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
  readonly firstPauseMs?: number;
}

export interface DownloadResult {
  /** The folder with the files. */
  readonly path: string;
  /** Unknown without the network. */
  readonly commit: string | undefined;
  readonly files: readonly HubFile[];
  /** Files that had to be fetched. */
  readonly fetched: readonly HubFile[];
}

const FIRST_PAUSE_MS = 500;
const MAX_NAMES_IN_MESSAGE = 12;
const MAX_TOKEN_BYTES = 4096;

/** @throws ToolError */
export async function download(options: DownloadOptions): Promise<DownloadResult> {
  const { repo, revision, settings, localFolder } = options;
  if (settings.isOffline) {
    if (localFolder !== undefined) await expectDownloaded(localFolder);
    const path =
      localFolder === undefined ? await cachedSnapshot(settings.cacheFolder, repo, revision) : resolve(localFolder);
    return { path, commit: undefined, files: [], fetched: [] };
  }
  const connection = await connect(options);
  const listing = await withRetries(repo.id, retrying(options), () => listRepo(connection, repo, revision));
  const files = chooseFiles(listing, options);
  const place =
    localFolder === undefined
      ? new HubCache(settings.cacheFolder, repo, revision, listing.commit)
      : new PlainFolder(localFolder, listing);
  const { path } = place;
  if (options.dryRun) return { path, commit: listing.commit, files, fetched: await missing(place, files, options) };
  await using _lock = await TargetLock.acquire(place.lockTarget);
  const fetched = await missing(place, files, options);
  await fetchAll(options, connection, place, fetched, listing.commit);
  await place.finish(files);
  return { path, commit: listing.commit, files, fetched };
}

async function connect({ settings, signal }: DownloadOptions): Promise<HubConnection> {
  const { endpoint, stallMs, tokenFile } = settings;
  const token = settings.token ?? (await readToken(tokenFile));
  return { endpoint, token, stallMs, signal };
}

async function readToken(path: string): Promise<string | undefined> {
  const text = (await readFile(path, "utf8").catch(() => "")).trim();
  return /^[\x21-\x7e]+$/.test(text) && text.length <= MAX_TOKEN_BYTES ? text : undefined;
}

function chooseFiles({ files }: HubListing, { filter, repo }: DownloadOptions): HubFile[] {
  const wanted = new Set(
    wantedFiles(
      files.map(({ path }) => path),
      filter,
    ),
  );
  if (wanted.size > 0) return files.filter(({ path }) => wanted.has(path));
  const names = files.slice(0, MAX_NAMES_IN_MESSAGE).map(({ path }) => path);
  throw new ToolError(
    `No file of ${repo.id} is wanted: it has ${names.join(", ")}${files.length > names.length ? ", …" : ""}`,
    {
      fix: "Change the file names or --include and --exclude",
    },
  );
}

async function missing(place: DownloadTarget, files: readonly HubFile[], options: DownloadOptions): Promise<HubFile[]> {
  const found: HubFile[] = [];
  const task = options.reporter.startTask({ task: "check", unit: "files", total: files.length });
  for (const file of files) {
    options.signal.throwIfAborted();
    if (!(await place.isThere(file, options.verify, options.signal))) found.push(file);
    task.add(1, file.path);
  }
  return found;
}

/** Large files first, so that the last worker ends soon after the others. */
async function fetchAll(
  options: DownloadOptions,
  connection: HubConnection,
  place: DownloadTarget,
  files: readonly HubFile[],
  commit: string,
): Promise<void> {
  if (files.length === 0) return;
  const total = sum(files.map(({ bytes }) => bytes));
  const kept = sum(await Promise.all(files.map((file) => partialBytes(place.partialPath(file)))));
  await requireFreeBytes(place.path, Math.max(0, total - kept));
  options.reporter.info(`${options.repo.id}: ${files.length} files, ${formatBytes(total)}, to ${place.path}`);
  const task = options.reporter.startTask({ task: "download", unit: "bytes", total });
  const stop = new AbortController();
  const signal = AbortSignal.any([connection.signal, stop.signal]);
  const waiting = [...files].sort((a, b) => a.bytes - b.bytes);
  const work = async (): Promise<void> => {
    for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
      await fetchOne(options, { ...connection, signal }, place, file, commit, task);
    }
  };
  const workers = Array.from({ length: Math.min(options.numWorkers, files.length) }, () =>
    work().catch((error: unknown) => {
      if (!stop.signal.aborted) stop.abort(error); // stop the other workers
      throw error;
    }),
  );
  try {
    const outcomes = await Promise.allSettled(workers);
    if (outcomes.some(({ status }) => status === "rejected")) throw signal.reason;
  } finally {
    task.end();
  }
}

async function fetchOne(
  options: DownloadOptions,
  connection: HubConnection,
  place: DownloadTarget,
  file: HubFile,
  commit: string,
  task: ProgressTask,
): Promise<void> {
  await transferFile({
    connection,
    file,
    url: fileUrl(connection.endpoint, options.repo, commit, file.path),
    partial: place.partialPath(file),
    target: place.checkedPath(file),
    firstPauseMs: options.firstPauseMs ?? FIRST_PAUSE_MS,
    onBytes: (bytes) => task.add(bytes, file.path),
    onKept: (bytes) => task.skip(bytes),
    onRetry: retrying(options).onRetry,
  });
}

function retrying({
  signal,
  firstPauseMs = FIRST_PAUSE_MS,
  reporter,
}: DownloadOptions): Parameters<typeof withRetries>[1] {
  return {
    signal,
    firstPauseMs,
    progress: () => 0,
    onRetry: (reason, pauseMs) => reporter.warn(`${reason}; trying again in ${formatDuration(pauseMs / 1000)}`),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
