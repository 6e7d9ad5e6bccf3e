/** The single-file program: built from the packages, installed by its script, run, and refused when a byte of it differs. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { longTestsReason } from "../support/long-tests.ts";
import { pack, ROOT, run } from "./installed-packages.ts";

const options = { skip: longTestsReason ?? false, timeout: 900_000 };
const BUILD = join(ROOT, "tools", "single-file", "build-single-file.ts");
const MODEL = join(ROOT, "examples", "nereid-tiny", "language_model");
let folder = "";
let bin = "";

before(() => {
  if (options.skip !== false) return;
  folder = mkdtempSync(join(tmpdir(), "nereid-single-"));
  bin = join(folder, "bin");
  pack(join(folder, "packages"));
  run(process.execPath, ["--import", "tsx", BUILD, `--out=${folder}/out`, `--packages=${folder}/packages`], ROOT);
  run(
    "sh",
    [join(folder, "out", "install.sh"), "--from", join(folder, "out"), "--to", bin],
    folder,
    cacheIn("installed"),
  );
});
after(() => {
  if (folder !== "") rmSync(folder, { recursive: true, force: true });
});

function cacheIn(name: string): Readonly<Record<string, string>> {
  return { NEREID_APP_CACHE: join(folder, name) };
}

test("the installed file runs a model, with no Node.js on the path", options, () => {
  const path = { PATH: `${bin}:/usr/bin:/bin`, ...cacheIn("run") };
  const answer = ["run", MODEL, "Once upon a time", "--temperature", "0", "--max_tokens", "8"];
  assert.equal(run("nereid", answer, folder, path), "There once was a boy named Pet\n");
  assert.match(run("nereid", ["version"], folder, path), /^nereid \d/);
  assert.equal(readdirSync(join(folder, "run")).length, 1);
});

test("a file with a byte that differs unpacks nothing, and install.sh refuses it", options, () => {
  const [name = ""] = readdirSync(join(folder, "out")).filter((each) => each.startsWith("nereid-"));
  const file = join(folder, "out", name);
  const bytes = readFileSync(file);
  const at = bytes.length >> 1;
  bytes[at] = 255 - (bytes[at] ?? 0);
  writeFileSync(file, bytes);
  const env = { ...process.env, ...cacheIn("damaged") };
  const started = spawnSync(file, ["version"], { env, encoding: "utf8" });
  assert.equal(started.status, 1);
  assert.match(
    started.stderr,
    /^nereid: .* is damaged: its archive has the SHA-256 [0-9a-f]{64}, expected [0-9a-f]{64}\n$/,
  );
  assert.deepEqual(readdirSync(join(folder, "damaged")), []);
  const script = [join(folder, "out", "install.sh"), "--from", join(folder, "out"), "--to", join(folder, "other")];
  const installed = spawnSync("sh", script, { env, encoding: "utf8" });
  assert.equal(installed.status, 1);
  assert.match(installed.stderr, /has not the hash of SHA256SUMS; nothing was installed/);
});
