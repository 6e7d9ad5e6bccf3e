/** The error of an offline command that its user can act on. Any other exception is a bug. */

/** Location of the cause in a file; lines count from 1. */
export interface FileLocation {
  readonly file: string;
  readonly line?: number;
}

export interface ToolErrorOptions extends ErrorOptions {
  /** The remedy, as a sentence of its own. */
  readonly fix?: string;
  readonly at?: FileLocation;
}

/** Message: expected and actual. Sentence case, no final period. */
export class ToolError extends Error {
  readonly fix: string | undefined;
  readonly at: FileLocation | undefined;

  constructor(message: string, options: ToolErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.name = "ToolError";
    this.fix = options.fix;
    this.at = options.at;
  }
}

export function locationText({ file, line }: FileLocation): string {
  return line === undefined ? file : `${file}:${line}`;
}

/** A `ToolError` for errors of Node's file functions; other errors pass unchanged. */
export function fileError(action: string, path: string, error: unknown): unknown {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  const reason = typeof code === "string" ? REASONS.get(code) : undefined;
  return reason === undefined ? error : new ToolError(`Cannot ${action} ${path}: ${reason}`, { cause: error });
}

const REASONS: ReadonlyMap<string, string> = new Map([
  ["ENOENT", "it does not exist"],
  ["EACCES", "permission denied"],
  ["EPERM", "the operation is not permitted"],
  ["EISDIR", "it is a folder"],
  ["ENOTDIR", "a part of the path is a file"],
  ["ENOSPC", "no space is left on the disk"],
  ["EDQUOT", "the disk quota is used up"],
  ["EROFS", "the file system is read-only"],
  ["ENAMETOOLONG", "the name is too long"],
  ["EBUSY", "it is in use, or the root of a disk"],
  ["EXDEV", "it is the root of a disk, and its parent is on another"],
  ["EMFILE", "too many files are open"],
]);
