/** Interface of a download destination: a plain folder or the standard cache. */
import type { HubFile } from "./listing.ts";

export interface DownloadTarget {
  /** The folder with the files, as reported to the user. */
  readonly path: string;
  /** Held while one process writes. */
  readonly lockTarget: string;
  /** Path of the partial file. */
  partialPath(file: HubFile): string;
  /** Path of a verified file, temporary or final. */
  checkedPath(file: HubFile): string;
  /** Whether the file is present and need not be fetched. `verify`: hash its content. */
  isThere(file: HubFile, verify: boolean, signal: AbortSignal): Promise<boolean>;
  /** Publishes all files after all have been fetched and verified. */
  finish(files: readonly HubFile[]): Promise<void>;
}

/**
 * Files that identify a model come last, so that an incomplete folder is not recognised as one. Order: others,
 * tokenizer files, model files.
 */
export function placementRank(path: string): number {
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (name === "config.json" || name === "params.json" || name.endsWith(".gguf")) return 2;
  if (name === "tokenizer.json" || name === "tokenizer.model" || name.endsWith(".onnx")) return 1;
  return 0;
}

export function inPlacementOrder(files: readonly HubFile[]): HubFile[] {
  return [...files].sort((a, b) => placementRank(a.path) - placementRank(b.path) || (a.path < b.path ? 1 : -1));
}
