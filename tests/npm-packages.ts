/**
 * Packages of npm for tests that use them as their users do: a folder under `.cache/npm/`, made once. Tells why when that is
 * impossible (no registry), so that tests are skipped by name.
 */
import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export type NpmPackages =
  | { readonly folder: string; readonly reason?: undefined }
  | { readonly folder: undefined; readonly reason: string };

const ROOT = fileURLToPath(new URL("../.cache/npm", import.meta.url));
/** Written when an installation is whole. */
const DONE = "installed.json";
const INSTALL_TIMEOUT_MS = 300_000;

/** Versions by package. Never rejects. One test file a name: nothing guards the folder. */
export async function npmPackages(name: string, versions: Readonly<Record<string, string>>): Promise<NpmPackages> {
  const folder = join(ROOT, name);
  try {
    await install(folder, JSON.stringify(versions), versions);
    return { folder };
  } catch (error) {
    const text = error instanceof Error ? error.message.trim() : String(error);
    return { folder: undefined, reason: `no ${Object.keys(versions).join(", ")}: ${text.split("\n").at(-1)}` };
  }
}

async function install(folder: string, wanted: string, versions: Readonly<Record<string, string>>): Promise<void> {
  const done = await readFile(join(folder, DONE), "utf8").catch(() => "");
  if (done === wanted) return;
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const manifest = { name: "test-packages", private: true, type: "module", dependencies: versions };
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest));
  const options = [
    "install",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--fetch-retries=1",
    "--fetch-timeout=15000",
  ];
  await promisify(execFile)("npm", options, { cwd: folder, timeout: INSTALL_TIMEOUT_MS });
  await writeFile(join(folder, DONE), wanted);
}
