/** What a file looks like that is not what its name says. */
import { closeSync, openSync, readSync, statSync } from "node:fs";

const LFS_BEGINNING = "version https://git-lfs.github.com/spec/";
const MAX_POINTER_BYTES = 1024;

/** Set when the file is what git leaves in place of a large one that was not fetched. */
export function gitLfsProblem(path: string): { readonly problem: string; readonly fix: string } | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isFile() !== true || stats.size > MAX_POINTER_BYTES) return undefined;
  const bytes = Buffer.alloc(LFS_BEGINNING.length);
  const file = openSync(path, "r");
  try {
    readSync(file, bytes);
  } finally {
    closeSync(file);
  }
  if (bytes.toString("latin1") !== LFS_BEGINNING) return undefined;
  const problem = "the file is a pointer of git-lfs, not the model: it was cloned without its large files";
  return { problem, fix: "Run git lfs pull there, or fetch it with nereid download" };
}
