/**
 * Programs of Debian packages for tests that need the real ones: on the path, or unpacked from downloaded packages into a folder
 * below `.cache`, with nothing installed. Tells why when that is impossible, so that tests are skipped by name.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

export type DebianProgram =
  | {
      readonly program: string;
      readonly env: Readonly<Record<string, string | undefined>>;
      readonly reason?: undefined;
    }
  | { readonly program: undefined; readonly reason: string };

const ROOT = fileURLToPath(new URL("../../.cache/debian", import.meta.url));
const FOLDERS = ["usr/sbin", "usr/bin"];
const LIBRARIES = "usr/lib/x86_64-linux-gnu";
const DOWNLOAD_TIMEOUT_MS = 120_000;

/** `packages`: those with the program and with libraries that a plain system lacks. Never throws. */
export function debianProgram(name: string, packages: readonly string[]): DebianProgram {
  const folders = [...(process.env.PATH ?? "").split(":"), "/usr/sbin"];
  const installed = folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
  if (installed !== undefined) return { program: installed, env: process.env };
  const home = join(ROOT, name);
  try {
    if (!existsSync(join(home, "done"))) unpack(home, packages);
  } catch (error) {
    return { program: undefined, reason: `no ${packages.join(", ")} of Debian: ${String(error).split("\n")[0]}` };
  }
  const program = FOLDERS.map((folder) => join(home, folder, name)).find((path) => existsSync(path));
  if (program === undefined) return { program: undefined, reason: `${packages.join(", ")} have no ${name}` };
  return { program, env: { ...process.env, LD_LIBRARY_PATH: join(home, LIBRARIES) } };
}

function unpack(home: string, packages: readonly string[]): void {
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  const options = { cwd: home, stdio: "ignore", timeout: DOWNLOAD_TIMEOUT_MS } as const;
  execFileSync("apt-get", ["download", ...packages], options);
  for (const file of readdirSync(home).filter((each) => each.endsWith(".deb"))) {
    execFileSync("dpkg", ["-x", file, "."], options);
    rmSync(join(home, file));
  }
  mkdirSync(join(home, "done"));
}
