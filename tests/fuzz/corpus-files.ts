/** Seeds that are files: `tests/fuzz/corpus/<folder>`, small and valid. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const CORPUS = fileURLToPath(new URL("./corpus/", import.meta.url));

/** In the order of their names, so that a case is the same everywhere. */
export function corpusFiles(folder: string): readonly Buffer[] {
  return readdirSync(`${CORPUS}${folder}`)
    .sort()
    .map((name) => readFileSync(`${CORPUS}${folder}/${name}`));
}
