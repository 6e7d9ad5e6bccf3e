/** Checks free disk space before long work, so that it fails at the start and not at the end. */
import { statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { formatBytes } from "./progress-text.ts";
import { fileError, ToolError } from "./tool-error.ts";

/** Bytes available to this user on the file system of `path`, which need not exist yet. */
export async function freeBytes(path: string): Promise<number> {
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    try {
      const { bavail, bsize } = await statfs(folder);
      return bavail * bsize;
    } catch (error) {
      const isMissing =
        error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR");
      if (!isMissing || folder === dirname(folder)) throw fileError("look at the disk of", folder, error);
    }
  }
}

/** @throws ToolError naming needed and free bytes. `freeOf` is for tests. */
export async function requireFreeBytes(
  path: string,
  neededBytes: number,
  freeOf: (path: string) => Promise<number> = freeBytes,
): Promise<void> {
  const free = await freeOf(path);
  if (neededBytes <= free) return;
  const needed = `${formatBytes(neededBytes)} (${neededBytes} bytes)`;
  throw new ToolError(
    `Not enough disk space for ${path}: ${needed} are needed, ${formatBytes(free)} (${free} bytes) are free`,
    {
      fix: `Free ${formatBytes(neededBytes - free)} more, or name a folder on another disk`,
    },
  );
}
