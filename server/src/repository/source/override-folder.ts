/**
 * The temporary folder of a model whose files came with its load request (`file:` parameters of the model repository
 * extension). These are all its files.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { MAX_OVERRIDE_DEPTH } from "../../core/limits.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { expectRelative } from "./path-containment.ts";

/** Writes `files` (paths inside the model's folder) to `<temporary>/<model>`. @throws ServerError for a path that leaves it */
export function writeOverrideFolder(
  model: string,
  files: ReadonlyMap<string, Uint8Array>,
): { root: string } & Disposable {
  for (const path of files.keys()) expectPath(path);
  const root = mkdtempSync(join(tmpdir(), "nereid-model-"));
  const remove = (): void => {
    try {
      rmSync(root, { recursive: true, force: true });
    } catch {
      // A folder that stays is in the place for temporary files; the server goes on.
    }
  };
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

function expectPath(path: string): void {
  expectRelative(path);
  const depth = path.split("/").length;
  if (depth <= MAX_OVERRIDE_DEPTH) return;
  throw invalidArgument(
    `a file of the load request lies ${depth} folders deep, expected at most ${MAX_OVERRIDE_DEPTH}`,
  );
}
