/** Detects files whose content differs from what their name says. */
import { closeSync, openSync, readSync, statSync } from "node:fs";

const LFS_BEGINNING = "version https://git-lfs.github.com/spec/";
const MAX_POINTER_BYTES = 1024;

/** Set when the file is a git-lfs pointer. */
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

/** Set when the names are those of a Hugging Face model; `folder` is their location. */
export function hubFolderProblem(
  folder: string,
  names: readonly string[],
): { readonly problem: string; readonly fix: string } | undefined {
  const isHub = names.includes("config.json") && names.some((name) => /\.safetensors$|^tokenizer\.json$/.test(name));
  if (!isHub) return undefined;
  const problem = "it is a folder of the Hugging Face hub, not one of a model repository";
  return { problem, fix: `Run nereid init-repo --model ${folder} --repo <new folder>, and serve that` };
}
