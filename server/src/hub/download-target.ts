/** Where the files of a download gather and end up. A plain folder and the standard cache are the two answers. */
import type { HubFile } from "./listing.ts";

export interface DownloadTarget {
  /** What the user is told: the folder with the files. */
  readonly path: string;
  /** Held while one process writes. */
  readonly lockTarget: string;
  /** Where bytes of a file gather. */
  partialPath(file: HubFile): string;
  /** Where a checked file waits, or stays. */
  checkedPath(file: HubFile): string;
  /** Whether the file is there and need not be fetched. `verify`: look at every byte. */
  isThere(file: HubFile, verify: boolean, signal: AbortSignal): Promise<boolean>;
  /** Makes everything visible, when all of it has been fetched and checked. */
  finish(files: readonly HubFile[]): Promise<void>;
}

/**
 * Files that make a folder a model come last, so that a folder in which some are missing is none: first all others, then what
 * opens a tokenizer, then what opens a model.
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
