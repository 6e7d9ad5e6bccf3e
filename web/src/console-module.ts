/** The files of the built page. The server loads this module when it serves the console, and knows nothing of the page. */
import { readdir, readFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { PageFile } from "@nereid/server/protocol/console/console-host";

const PAGE: string = fileURLToPath(new URL("../page", import.meta.url));

/** @throws Error when the page was not built */
export async function readPage(folder: string = PAGE): Promise<readonly PageFile[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch((cause: unknown) => {
    throw new Error(`${folder}: expected the built page of the console; npm run build makes it`, { cause });
  });
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  return Promise.all(files.map((file) => pageFile(folder, file)));
}

async function pageFile(folder: string, file: string): Promise<PageFile> {
  const bytes = await readFile(file);
  const gzipped = await promisify(gzip)(bytes, { level: 9 });
  return { path: relative(folder, file).split(sep).join("/"), bytes, gzipped };
}
