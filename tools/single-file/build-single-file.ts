/**
 * One executable file with Node.js, all packages and their native libraries, for a platform:
 * `npm run single-file -- [--cpu=x64|arm64] [--out=build/single-file] [--packages=<tarballs of npm run pack>]`.
 * Node.js comes from npm's package `node-linux-<cpu>`. The same inputs give the same bytes.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { PLATFORMS } from "../packaging/published-manifest.ts";
import { startScript } from "./start-script.ts";

const SOURCE = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const SHELL_FILES = join(SOURCE, "packaging", "single-file");
const NODE_VERSION = "24.18.0";
const MIB = 1 << 20;

const { values } = parseArgs({
  options: {
    cpu: { type: "string", default: process.arch },
    out: { type: "string", default: join(SOURCE, "build", "single-file") },
    packages: { type: "string" },
  },
});
const platform = PLATFORMS.find(({ cpu }) => cpu === values.cpu);
if (platform === undefined)
  throw new Error(`--cpu: expected ${PLATFORMS.map(({ cpu }) => cpu).join(" or ")}, got ${values.cpu}`);
const name = `${platform.os}-${platform.cpu}`;
const out = resolve(values.out);
const app = join(out, `app-${name}`);
const packages = values.packages === undefined ? join(out, "packages") : resolve(values.packages);
rmSync(app, { recursive: true, force: true });
mkdirSync(app, { recursive: true });
if (values.packages === undefined) run("npm", ["run", "--silent", "pack", "--", `--out=${packages}`]);
installPackages();
const archive = join(out, `${name}.tar.gz`);
run("bash", ["-c", `${tarCommand()} -C '${app}' -cf - . | gzip -9n > '${archive}'`]);
const { version }: { readonly version: string } = JSON.parse(readFileSync(join(SOURCE, "nereid/package.json"), "utf8"));
const bytes = readFileSync(archive);
const hash = createHash("sha256").update(bytes).digest("hex");
const template = readFileSync(join(SHELL_FILES, "start.sh"), "utf8");
const file = join(out, `nereid-${version}-${name}`);
writeFileSync(file, Buffer.concat([Buffer.from(startScript(template, { version, platform: name, hash })), bytes]));
chmodSync(file, 0o755);
copyFileSync(join(SHELL_FILES, "install.sh"), join(out, "install.sh"));
writeSums();
rmSync(archive);
rmSync(app, { recursive: true });
process.stdout.write(`${file}: ${Math.round(bytes.length / MIB)} MiB\n`);

/** The packages of this repository and those that they need, for the platform, and Node.js beside them. */
function installPackages(): void {
  const runtime = `onnxruntime-${name}`;
  const isOfOther = (tarball: string): boolean => tarball.includes("onnxruntime-") && !tarball.includes(runtime);
  const tarballs = readdirSync(packages).filter((each) => each.endsWith(".tgz") && !isOfOther(each));
  const target = ["--os=linux", `--cpu=${values.cpu}`, "--libc=glibc", "--ignore-scripts"];
  const quiet = ["--omit=dev", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"];
  const node = `node-${name}@${NODE_VERSION}`;
  run("npm", ["install", "--prefix", app, ...target, ...quiet, node, ...tarballs.map((each) => join(packages, each))]);
  copyFileSync(join(app, "node_modules", `node-${name}`, "bin", "node"), join(app, "node"));
  chmodSync(join(app, "node"), 0o755);
  rmSync(join(app, "node_modules", `node-${name}`), { recursive: true });
  // It names the folder of the tarballs, which differs from build to build.
  rmSync(join(app, "node_modules", ".package-lock.json"));
  rmSync(join(app, "package.json"));
}

function tarCommand(): string {
  return "tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u+rwX,go-w";
}

/** For all platforms that were built into this folder. */
function writeSums(): void {
  const files = readdirSync(out)
    .filter((each) => /^nereid-.*-linux-(x64|arm64)$/.test(each))
    .sort();
  const sumOf = (each: string): string =>
    createHash("sha256")
      .update(readFileSync(join(out, each)))
      .digest("hex");
  writeFileSync(join(out, "SHA256SUMS"), files.map((each) => `${sumOf(each)}  ${each}\n`).join(""));
}

function run(program: string, args: readonly string[]): void {
  const { status, error } = spawnSync(program, args, { cwd: SOURCE, stdio: "inherit" });
  if (status !== 0) throw new Error(`${program}: expected success, got ${error ?? status}`);
}
