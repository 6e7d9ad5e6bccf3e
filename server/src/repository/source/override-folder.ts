/**
 * The temporary folder of a model whose files came with its load request (`file:` parameters of the model repository
 * extension). These are all its files.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { ServerError } from "../../core/server-error.ts";
import { expectRelative } from "./path-containment.ts";

/** Writes `files` (paths inside the model's folder) to `<temporary>/<model>`. @throws ServerError for a path that leaves it */
export function writeOverrideFolder(
  model: string,
  files: ReadonlyMap<string, Uint8Array>,
): { root: string } & Disposable {
  for (const path of files.keys()) expectRelative(path);
  const root = mkdtempSync(join(tmpdir(), "nereid-model-"));
  const remove = (): void => rmSync(root, { recursive: true, force: true });
  try {
    for (const [path, bytes] of files) {
      const file = join(root, model, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, bytes, { flag: "wx" });
    }
  } catch (error) {
    remove();
    const text = "the files of the load request cannot be written: a path is given twice, or is both file and folder";
    throw new ServerError("invalid_argument", text, { cause: error });
  }
  return { root, [Symbol.dispose]: remove };
}
