/** The files of a revision with lengths and hashes. Source: Hugging Face Hub API, "models/{repo}/revision". */

import { TransientFailure } from "../files/http-exchange.ts";
import { readText } from "../files/http-response.ts";
import { ToolError } from "../files/tool-error.ts";
import { type HubConnection, networkError, requestHub } from "./http.ts";
import { expectRevision, fileNameProblem, type HubRepo, isCommit } from "./names.ts";

export interface HubFile {
  readonly path: string;
  readonly bytes: number;
  /** LFS files are identified by SHA-256, others by git's SHA-1. Lower-case hex; also the name in the cache. */
  readonly hash: { readonly kind: "sha256" | "git"; readonly hex: string };
}

export interface HubListing {
  readonly commit: string;
  readonly files: readonly HubFile[];
}

/** The listings of the largest repositories have some 20 MB. */
const MAX_LISTING_BYTES = 128 << 20;
const MAX_FILES = 200_000;
/** 1 PiB, more than any disk: larger values are no length. */
const MAX_FILE_BYTES = 2 ** 50;

/** @throws ToolError, TransientFailure */
export async function listRepo(
  connection: HubConnection,
  { type, id }: HubRepo,
  revision: string,
): Promise<HubListing> {
  expectRevision(revision);
  const url = `${connection.endpoint}/api/${type}s/${id}/revision/${encodeURIComponent(revision)}?blobs=true`;
  return parseListing(await readJson(connection, url), url);
}

export function fileUrl(endpoint: string, { type, id }: HubRepo, commit: string, path: string): string {
  const escaped = path.split("/").map(encodeURIComponent).join("/");
  return `${endpoint}/${type === "model" ? "" : `${type}s/`}${id}/resolve/${commit}/${escaped}`;
}

/** Validates a listing; all of it is untrusted. @throws ToolError */
export function parseListing(json: unknown, url: string): HubListing {
  const { sha, siblings } = record(json);
  if (typeof sha !== "string" || !isCommit(sha) || !Array.isArray(siblings))
    throw wrong(url, "is no listing of a repository");
  if (siblings.length > MAX_FILES) throw wrong(url, `names ${siblings.length} files, expected at most ${MAX_FILES}`);
  const files = siblings.map((sibling: unknown) => fileOf(record(sibling), url));
  expectDistinct(files, url);
  return { commit: sha, files };
}

function fileOf({ rfilename, size, blobId, lfs }: Readonly<Record<string, unknown>>, url: string): HubFile {
  if (typeof rfilename !== "string") throw wrong(url, "has a file without a name");
  const problem = fileNameProblem(rfilename);
  if (problem !== undefined)
    throw wrong(url, `has the file ${JSON.stringify(rfilename)}, which is refused: ${problem}`);
  const large = lfs === undefined || lfs === null ? undefined : record(lfs);
  const bytes = large?.size ?? size;
  if (typeof bytes !== "number" || !Number.isInteger(bytes) || bytes < 0 || bytes > MAX_FILE_BYTES) {
    throw wrong(url, `gives '${rfilename}' the length ${JSON.stringify(bytes)}`);
  }
  const hex = large === undefined ? blobId : large.sha256;
  const digits = large === undefined ? 40 : 64;
  if (typeof hex !== "string" || hex.length !== digits || !/^[0-9a-f]+$/.test(hex)) {
    throw wrong(url, `gives '${rfilename}' the hash ${JSON.stringify(hex)}`);
  }
  return { path: rfilename, bytes, hash: { kind: large === undefined ? "git" : "sha256", hex } };
}

/** A path cannot be a file and a folder, nor occur twice. */
function expectDistinct(files: readonly HubFile[], url: string): void {
  const paths = new Set(files.map(({ path }) => path));
  if (paths.size !== files.length) throw wrong(url, "names a file twice");
  for (const path of paths) {
    for (let end = path.indexOf("/"); end !== -1; end = path.indexOf("/", end + 1)) {
      if (paths.has(path.slice(0, end))) throw wrong(url, `has '${path.slice(0, end)}' as a file and as a folder`);
    }
  }
}

async function readJson(connection: HubConnection, url: string): Promise<unknown> {
  const answer = await requestHub(connection, url);
  const tooLong = (): Error => wrong(url, `is longer than ${MAX_LISTING_BYTES} bytes`);
  const text = await readText(answer, MAX_LISTING_BYTES, tooLong).catch((error: unknown) => {
    throw networkError(error, new URL(url), connection);
  });
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new TransientFailure(`${url} is no JSON`, { cause: error });
  }
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

function wrong(url: string, text: string): ToolError {
  return new ToolError(`The answer of ${url} ${text}`, {
    fix: "Check HF_ENDPOINT: it may be no hub, or not one to trust",
  });
}
