/** Raw figures of a run, for further analysis: `.cache/bench/<name>.json`, which git ignores. Pages in results/ hold the summary. */
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("../.cache/bench/", import.meta.url));

export function writeRawResults(name: string, value: unknown): void {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(`${FOLDER}${name}.json`, `${JSON.stringify(value, undefined, 2)}\n`);
}
