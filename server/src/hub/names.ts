/**
 * Validates and parses names from users and hubs: repositories, revisions, files. A file's name must not leave its
 * folder. Pure.
 */
import { ToolError } from "../files/tool-error.ts";

export type RepoType = "model" | "dataset";

export interface HubRepo {
  readonly type: RepoType;
  /** `name` or `organisation/name`. */
  readonly id: string;
}

/** Maximum path length on a hub; file systems allow 255 bytes per component. */
const MAX_PATH_BYTES = 1024;
const MAX_PART_BYTES = 255;
const MAX_REVISION_LENGTH = 255;

/** `org/model`, `hf:org/model`, `hf://org/model`, `https://<hub>/org/model`, each with an optional `@revision`. */
export function parseRepoName(
  text: string,
  type: RepoType,
  endpoint: string,
): { repo: HubRepo; revision: string | undefined } {
  const withoutHub = text.startsWith(`${endpoint}/`) ? text.slice(endpoint.length + 1) : text;
  const [id = "", ...rest] = withoutHub
    .replace(/^hf:(\/\/)?/, "")
    .replace(/\/+$/, "")
    .split("@");
  const revision = rest.length === 0 ? undefined : rest.join("@");
  if (!/^(?:[\w-][\w.-]{0,95}\/)?[\w-][\w.-]{0,95}$/.test(id) || id.includes("..") || id.includes("--")) {
    throw new ToolError(`'${text}' is no name of a ${type}: expected <organisation>/<name>`, {
      fix: "Copy the name from the model's page, such as meta-llama/Llama-3.1-8B-Instruct",
    });
  }
  if (revision !== undefined) expectRevision(revision);
  return { repo: { type, id }, revision };
}

/** A branch, a tag, a commit or `refs/pr/1`. @throws ToolError */
export function expectRevision(revision: string): void {
  const isRight = /^[\w][\w./-]*$/.test(revision) && !revision.includes("..") && revision.length <= MAX_REVISION_LENGTH;
  if (!isRight) throw new ToolError(`'${revision}' is no revision: expected a branch, a tag or a commit`);
}

export function isCommit(revision: string): boolean {
  return /^[0-9a-f]{40}$/.test(revision);
}

/** Why a file name is invalid; undefined when it is valid. */
export function fileNameProblem(path: string): string | undefined {
  if (path === "" || Buffer.byteLength(path) > MAX_PATH_BYTES) return `its name has ${Buffer.byteLength(path)} bytes`;
  if (/[\\:]/.test(path)) return "its name has a backslash or a colon";
  if ([...path].some((character) => character < " " || character === "\x7f")) return "its name has a control character";
  const parts = path.split("/");
  if (parts.some((part) => part === "" || part === "." || part === "..")) return "its name leaves the folder";
  if (parts.some((part) => Buffer.byteLength(part) > MAX_PART_BYTES)) return "a part of its name is too long";
  if (path.startsWith(".cache/huggingface/")) return "it would be among the records of downloads";
  return undefined;
}

/** `models--org--name`: the folder of a repository in the cache. */
export function cacheFolderName({ type, id }: HubRepo): string {
  return [`${type}s`, ...id.split("/")].join("--");
}
