/** Installations that lack optional packages: each need is an error that names the package, and the core stays small. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { install, installedPackages, pack, plainEnvironment } from "./installed-packages.ts";

const MAX_CORE_BYTES = 60e6;
/** `st_blocks` counts units of 512 bytes (POSIX, sys/stat.h). */
const BYTES_PER_BLOCK = 512;

const temporary = mkdtempSync(join(tmpdir(), "nereid-absent-"));
const core = join(temporary, "core");
const tools = join(temporary, "tools");
const empty = join(temporary, "empty");
const NO_PORTS = ["--allow-http=false", "--allow-grpc=false", "--allow-metrics=false"];

before(() => {
  const tarballs = join(temporary, "tarballs");
  pack(tarballs, "wire", "server", "client", "offline");
  const [wire = "", server = "", client = "", offline = ""] = ["wire", "server", "client", "offline"].map((name) =>
    join(tarballs, `nereid-${name}-0.1.0.tgz`),
  );
  install(core, [wire, server]);
  install(tools, [wire, server, client, offline]);
  mkdirSync(empty);
});
after(() => rmSync(temporary, { recursive: true, force: true }));

interface Ending {
  readonly status: number | null;
  readonly text: string;
  readonly errors: string;
}

function nereid(project: string, ...args: readonly string[]): Ending {
  const program = join(project, "node_modules", ".bin", "nereid");
  const env = { ...process.env, ...plainEnvironment() };
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: project, env, encoding: "utf8", timeout: 60_000 });
  return { status, text: `${stdout}${stderr}`, errors: stderr };
}

/** A repository with one model. @returns its folder */
function repositoryOf(name: string, config: string): string {
  const folder = join(temporary, name);
  mkdirSync(join(folder, "m", "1"), { recursive: true });
  writeFileSync(join(folder, "m", "config.pbtxt"), config);
  writeFileSync(join(folder, "m", "1", "model.onnx"), "");
  return folder;
}

function missing(neededBy: string, name: string): string {
  return `${neededBy} needs the package ${name}, which is not installed: npm install ${name}`;
}

test("the core takes less than 60 MB on disk, with all of its dependencies", () => {
  const entries = readdirSync(core, { recursive: true, encoding: "utf8" });
  const numBytes = entries.reduce((sum, path) => sum + lstatSync(join(core, path)).blocks * BYTES_PER_BLOCK, 0);
  assert.ok(numBytes > 1e6 && numBytes < MAX_CORE_BYTES, `${numBytes} bytes`);
});

test("the core brings none of the optional packages", () => {
  const names = new Set(installedPackages(core).map(({ name }) => name));
  assert.deepEqual([...names].filter((name) => name.startsWith("@nereid/")).sort(), ["@nereid/server", "@nereid/wire"]);
  for (const name of ["@redis/client", "sharp", "pg", "mongodb", "@electric-sql/pglite"]) assert.ok(!names.has(name));
});

for (const [backend, name] of [
  ["image", "@nereid/images"],
  ["retrieval", "@nereid/retrieval"],
] as const) {
  test(`a model of the backend ${backend} does not load without ${name}, and the log says so`, () => {
    const repository = repositoryOf(`serve-${backend}`, `backend: "${backend}"\n`);
    const { status, text } = nereid(core, "serve", `--model-repository=${repository}`, ...NO_PORTS);
    assert.equal(status, 1, text);
    assert.ok(unescaped(text).includes(missing(`the backend "${backend}"`, name)), text);
  });

  test(`\`nereid doctor\` finds that a model of the backend ${backend} lacks ${name}`, () => {
    const repository = repositoryOf(`doctor-${backend}`, `backend: "${backend}"\n`);
    const { status, text } = nereid(tools, "doctor", repository);
    assert.equal(status, 1, text);
    assert.ok(text.includes(`error: ${missing(`the backend "${backend}"`, name)}`), text);
    assert.match(text, /fix: Install it/);
  });
}

test("a model in ONNX does not load without ONNX Runtime, and the log names the package", () => {
  const repository = repositoryOf("serve-onnx", 'backend: "onnxruntime"\n');
  const { status, text } = nereid(core, "serve", `--model-repository=${repository}`, ...NO_PORTS);
  assert.equal(status, 1, text);
  assert.ok(text.includes(`npm install @nereid/onnxruntime-${process.platform}-${process.arch}`), text);
});

for (const [command, name] of [
  ["doctor", "@nereid/offline"],
  ["quantize", "@nereid/offline"],
  ["onnx", "@nereid/onnx-tools"],
  ["trtexec", "@nereid/onnx-tools"],
  ["index", "@nereid/retrieval"],
  ["bench", "@nereid/perf"],
  ["tune", "@nereid/perf"],
  ["record", "@nereid/perf"],
  ["replay", "@nereid/perf"],
  ["conformance", "@nereid/perf"],
] as const) {
  test(`\`nereid ${command}\` ends with one line that names ${name}`, () => {
    const { status, errors } = nereid(core, command, "--help");
    assert.equal(errors, `nereid: ${missing(`the command '${command}'`, name)}\n`);
    assert.equal(status, 1);
  });
}

test("a remote repository ends the start with the package that reads it", () => {
  const { status, text } = nereid(core, "serve", "--model-repository=s3://bucket/models", ...NO_PORTS);
  assert.equal(status, 1, text);
  assert.ok(text.includes(missing("--model-repository=s3://", "@nereid/object-stores")), text);
});

test("`nereid init-repo --images` ends with one line that names the exporter", () => {
  const { status, errors } = nereid(tools, "init-repo", "--images", "--model", empty, "--repo", join(temporary, "new"));
  assert.equal(errors, `nereid init-repo: ${missing("init-repo --images", "@nereid/onnx-tools")}\n`);
  assert.equal(status, 1);
});

test("--allow-console ends the start with the package of the page", () => {
  const flags = ["--allow-console=true", "--http-address=127.0.0.1", "--allow-grpc=false", "--allow-metrics=false"];
  const { status, text } = nereid(core, "serve", `--model-repository=${empty}`, ...flags);
  assert.equal(status, 1, text);
  assert.ok(text.includes(missing("the console", "@nereid/console")), text);
});

test("--allow-mcp ends the start with the package of the protocol", () => {
  const { status, text } = nereid(core, "serve", `--model-repository=${empty}`, "--allow-mcp=true", ...NO_PORTS);
  assert.equal(status, 1, text);
  assert.ok(text.includes(missing("--allow-mcp", "@nereid/mcp")), text);
});

test("a response cache in Redis ends the start with the package of its client", () => {
  const cache = "--cache-config=redis,host=127.0.0.1";
  const { status, text } = nereid(core, "serve", `--model-repository=${empty}`, cache, ...NO_PORTS);
  assert.equal(status, 1, text);
  assert.ok(text.includes(missing("--cache-config=redis", "@redis/client")), text);
});

/** The log writes messages as JSON strings. */
function unescaped(text: string): string {
  return text.replaceAll('\\"', '"');
}
