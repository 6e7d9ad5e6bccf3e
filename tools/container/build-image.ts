/**
 * Makes the image without a daemon: runs the steps of the Dockerfile on this Debian machine, as root, and packs the
 * result. `npm run image -- [--out=build/image] [--target=cuda] [--packages=<tarballs of npm run pack>] [--no-tar]`
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { folderBytes } from "./folder-bytes.ts";
import { writeOciImage } from "./oci-image.ts";
import { imageSettings, stepsOf } from "./steps.ts";

const SOURCE = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const MIB = 1 << 20;

const { values } = parseArgs({
  options: {
    out: { type: "string", default: join(SOURCE, "build", "image") },
    target: { type: "string", default: "cpu" },
    packages: { type: "string" },
    "no-tar": { type: "boolean", default: false },
  },
});
if (values.target !== "cpu" && values.target !== "cuda")
  throw new Error(`--target: expected cpu or cuda, got ${values.target}`);
if (process.getuid?.() !== 0 || !existsSync("/usr/bin/apt-get"))
  throw new Error(
    "expected root on Debian, for chroot and apt-get; elsewhere: docker build -f packaging/container/Dockerfile .",
  );

const out = resolve(values.out);
const rootfs = join(out, "rootfs");
const packages = values.packages === undefined ? join(out, "packages") : resolve(values.packages);
rmSync(rootfs, { recursive: true, force: true });
mkdirSync(rootfs, { recursive: true });
if (values.packages === undefined) run("npm", ["run", "--silent", "pack", "--", `--out=${packages}`]);
const env = { ...process.env, ROOTFS: rootfs, SOURCE, PACKAGES: packages, ARCH: process.arch };
for (const { name, script } of stepsOf(values.target)) {
  process.stderr.write(`${name} ...\n`);
  run("bash", ["-euo", "pipefail", "-c", script], env);
}
process.stdout.write(`${rootfs}: ${Math.round(folderBytes(rootfs) / MIB)} MiB\n`);
if (!values["no-tar"]) {
  const file = join(out, `nereid-${values.target}.tar`);
  const architecture = process.arch === "x64" ? "amd64" : process.arch;
  const created = new Date(1000 * Number(process.env.SOURCE_DATE_EPOCH ?? Math.floor(Date.now() / 1000)));
  const settings = imageSettings(values.target);
  const name = `nereid:0.1.0${values.target === "cuda" ? "-cuda" : ""}`;
  const { layerBytes } = await writeOciImage({ rootfs, settings, architecture, name, created }, file);
  process.stdout.write(`${file}: ${Math.round(layerBytes / MIB)} MiB packed\n`);
}

function run(program: string, args: readonly string[], environment: NodeJS.ProcessEnv = process.env): void {
  const { status, error } = spawnSync(program, args, { cwd: SOURCE, env: environment, stdio: "inherit" });
  if (status !== 0) throw new Error(`${program}: expected success, got ${error ?? status}`);
}
