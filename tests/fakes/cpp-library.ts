/** The test backend in C++, compiled once for a test file; and why it cannot be, where there is no compiler. */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";

const HEADERS = fileURLToPath(new URL("../../server/backend-host", import.meta.url));

/** For a test's `skip`: false where a C++ compiler is there. */
export const NO_COMPILER: string | false =
  spawnSync("g++", ["--version"]).status === 0 ? false : "needs g++, which is not installed";

/** Compiles `source`, a path from this folder; returns a function that puts the library at a path. */
export function compileLibrary(source: string): (path: string) => void {
  const folder = mkdtempSync(join(tmpdir(), "nereid-cpp-"));
  after(() => rmSync(folder, { recursive: true, force: true }));
  const library = join(folder, "library.so");
  const file = fileURLToPath(new URL(source, import.meta.url));
  const args = ["-std=c++17", "-O1", "-fPIC", "-shared", `-I${HEADERS}`, file, "-o", library];
  const { status, stderr } = spawnSync("g++", args, { encoding: "utf8", timeout: 300_000 });
  if (status !== 0) throw new Error(`g++ cannot compile ${file}: ${stderr}`);
  return (path) => {
    mkdirSync(dirname(path), { recursive: true });
    copyFileSync(library, path);
  };
}
