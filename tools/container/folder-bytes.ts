/** Bytes of the files below a folder. Links are not followed, and names of one file count once. */
import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";

export function folderBytes(folder: string): number {
  const seen = new Set<number>();
  let bytes = 0;
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const { size, ino } = lstatSync(join(folder, name));
    if (!seen.has(ino)) bytes += size;
    seen.add(ino);
  }
  return bytes;
}
