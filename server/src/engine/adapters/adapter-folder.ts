/** Folders of adapters that are named while the server runs: where they may lie, and whether they have changed. */
import { readdir, realpath, stat } from "node:fs/promises";
import { isAbsolute, join, relative, resolve, sep } from "node:path";
import { invalidArgument } from "../../core/server-error.ts";

/** More are no adapter: hashing a large folder with each request would be slow. */
const MAX_FILES = 64;

/** The folder behind all links. @throws ServerError when it does not lie below the root, or is not there */
export async function folderBelow(root: string, path: string): Promise<string> {
  const [base, real] = await Promise.all([realFolder(root), realFolder(resolve(root, path))]);
  // The same text for a folder that is not there and for one elsewhere: it must not help to explore the disk.
  if (base === undefined || real === undefined || !isBelow(base, real)) throw notBelow(path);
  return real;
}

function isBelow(base: string, path: string): boolean {
  const inner = relative(base, path);
  return inner !== "" && inner !== ".." && !inner.startsWith(`..${sep}`) && !isAbsolute(inner);
}

/** Differs after every change of a file in the folder. */
export async function stampOf(folder: string): Promise<string> {
  const names = (await readdir(folder)).sort();
  if (names.length > MAX_FILES) {
    throw invalidArgument(`${folder}: expected an adapter with at most ${MAX_FILES} files, got ${names.length}`);
  }
  const stamps = names.map(async (name) => {
    const { ino, size, mtimeMs } = await stat(join(folder, name));
    return `${name}.${ino}.${size}.${mtimeMs}`;
  });
  return (await Promise.all(stamps)).join("/");
}

async function realFolder(path: string): Promise<string | undefined> {
  try {
    const real = await realpath(path);
    return (await stat(real)).isDirectory() ? real : undefined;
  } catch {
    return undefined;
  }
}

function notBelow(path: string): Error {
  return invalidArgument(
    `no adapter of this model lies at '${path.slice(0, 200)}': expected a folder below its lora_dir`,
  );
}
