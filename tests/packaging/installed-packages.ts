/** The packages as users get them: packed, installed into an empty folder as npm does by default, and what then lies there. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { LOADER_FLAGS } from "../support/source-loader.ts";

export const ROOT: string = fileURLToPath(new URL("../..", import.meta.url));
const PACK_TOOL = join(ROOT, "tools", "pack.ts");
/** The machine decides the source of packages; everything else of npm is as shipped. */
const REGISTRY_SETTING = /^npm_config_(?:registry|cafile|userconfig|globalconfig|cache|.*proxy)$/i;

export interface InstalledPackage {
  readonly folder: string;
  readonly name: string;
  readonly scripts: Readonly<Record<string, string>>;
}

/** Packs what is built into a folder, all packages or those named. Other tests run the build meanwhile. */
export function pack(out: string, ...names: readonly string[]): void {
  run(process.execPath, [...LOADER_FLAGS, PACK_TOOL, "--built", `--out=${out}`, ...names], ROOT);
}

/** `npm install` of tarballs in a new folder. */
export function install(folder: string, tarballs: readonly string[]): void {
  mkdirSync(folder);
  run("npm", ["install", ...tarballs], folder);
}

/** Environment of npm outside of any npm script: settings that an outer npm handed down are unset. */
export function plainEnvironment(): Record<string, string | undefined> {
  const inherited = Object.keys(process.env).filter((key) => /^npm_/i.test(key) && !REGISTRY_SETTING.test(key));
  const unset = Object.fromEntries(inherited.map((key) => [key, undefined]));
  // The default, said aloud, so that a careful machine does not hide the scripts that others would run.
  return { ...unset, NODE_OPTIONS: undefined, npm_config_ignore_scripts: "false" };
}

/** Every package below a folder, also those inside of others. */
export function installedPackages(folder: string): InstalledPackage[] {
  const modules = join(folder, "node_modules");
  if (!existsSync(modules)) return [];
  return packageFolders(modules).flatMap((path) => {
    const { name, scripts = {} }: Partial<InstalledPackage> & { name: string } = JSON.parse(
      readFileSync(join(path, "package.json"), "utf8"),
    );
    return [{ folder: path, name, scripts }, ...installedPackages(path)];
  });
}

/** Paths of the files in a tarball, without the `package/` in front. */
export function filesInTarball(path: string): string[] {
  const listed = run("tar", ["-tzf", path], ROOT);
  return listed
    .trim()
    .split("\n")
    .map((line) => line.replace(/^package\//, ""));
}

function packageFolders(modules: string): string[] {
  return readdirSync(modules)
    .flatMap((name) =>
      name.startsWith("@") ? readdirSync(join(modules, name)).map((part) => join(name, part)) : [name],
    )
    .map((name) => join(modules, name))
    .filter((path) => existsSync(join(path, "package.json")));
}

export function run(
  program: string,
  args: readonly string[],
  cwd: string,
  more: Readonly<Record<string, string>> = {},
): string {
  const env = { ...process.env, ...plainEnvironment(), ...more };
  const result = spawnSync(program, args, { cwd, env, encoding: "utf8" });
  const { status, error, stdout, stderr } = result;
  assert.equal(status, 0, `${program} ${args.join(" ")}: ${error ?? ""}\n${stdout}\n${stderr}`);
  return stdout;
}
