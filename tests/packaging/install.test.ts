import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isProprietary } from "../../tools/dependency-rules.ts";
import { longTestsReason } from "../support/long-tests.ts";
import { startServerProcess } from "../support/server-process.ts";
import { filesInTarball, install, installedPackages, pack, plainEnvironment, ROOT, run } from "./installed-packages.ts";

const EXAMPLES = join(ROOT, "examples", "model_repository");
/** Folders of the workspace. */
const JAVASCRIPT_PACKAGES = [
  "wire",
  "client",
  "server",
  "object-stores",
  "images",
  "mcp",
  "web",
  "retrieval",
  "onnx-tools",
  "offline",
  "perf",
  "nereid",
];
const HOOKS = ["preinstall", "install", "postinstall"];
const LIBRARY = /\.(?:so|dll|dylib|node|a|cubin|fatbin)(?:\.|$)/;
const NVIDIA_LIBRARY = /lib(?:cu|nv|tensorrt|nccl|onnxruntime_providers)|cuda/i;
const SIMPLE = {
  inputs: [
    { name: "INPUT0", datatype: "INT32", shape: [1, 16], data: Array.from({ length: 16 }, (_, index) => index) },
    { name: "INPUT1", datatype: "INT32", shape: [1, 16], data: Array.from({ length: 16 }, () => 1) },
  ],
};
const GENERATE = { text_input: "What is machine learning?", max_tokens: 20, bad_words: "", stop_words: "" };

const temporary = mkdtempSync(join(tmpdir(), "nereid-packages-"));
const tarballs = join(temporary, "tarballs");
const project = join(temporary, "project");
/** The package of the folder `web` is named after what users see. */
const nameOf = (folder: string): string => (folder === "web" ? "console" : folder);
const fileOf = (folder: string): string =>
  folder === "nereid" ? "nereid-0.1.0.tgz" : `nereid-${nameOf(folder)}-0.1.0.tgz`;
const tarballOf = (name: string): string => join(tarballs, fileOf(name));

before(() => {
  pack(tarballs);
  const platform = `onnxruntime-${process.platform}-${process.arch}`;
  install(project, [...JAVASCRIPT_PACKAGES, platform].map(tarballOf));
});
after(() => rmSync(temporary, { recursive: true, force: true }));

test("`npm run pack` makes one package per part and platform", () => {
  const names = [...JAVASCRIPT_PACKAGES, "onnxruntime-linux-arm64", "onnxruntime-linux-x64"];
  assert.deepEqual(readdirSync(tarballs).sort(), names.map(fileOf).sort());
});

test("`npm run pack` makes the same bytes from the same sources", { skip: longTestsReason ?? false }, () => {
  const again = join(temporary, "again");
  pack(again, ...JAVASCRIPT_PACKAGES);
  for (const file of readdirSync(again)) {
    assert.deepEqual(readFileSync(join(again, file)), readFileSync(join(tarballs, file)), file);
  }
});

for (const name of JAVASCRIPT_PACKAGES) {
  test(`the package of ${name} carries its licence and built modules, no sources, tests or maps`, () => {
    const files = filesInTarball(tarballOf(name));
    for (const expected of ["LICENSE", "NOTICE", "package.json"]) assert.ok(files.includes(expected), expected);
    assert.ok(files.some((file) => (name === "nereid" ? /^bin\/.*\.cjs$/ : /^dist\/.*\.js$/).test(file)));
    assert.deepEqual(
      files.filter((file) => /\.test\.|\.bench\.|\.map$|(?<!\.d)\.ts$|\.tsbuildinfo$|node_modules|\.pyc$/.test(file)),
      [],
    );
  });
}

test("the package of server carries all that it starts by path, and the licence of what is bundled", () => {
  const files = filesInTarball(tarballOf("server"));
  const worker = "dist/src/backend/typescript/worker";
  const programs = [
    "dist/src/main/engine-host.js",
    "dist/src/engine/guide/grammar-worker.js",
    "dist/src/engine/guide/mask-thread.js",
    `${worker}/model-worker.js`,
    `${worker}/type-stripping-hooks.js`,
    "dist/src/backend/typescript/model-api.d.ts",
  ];
  for (const expected of ["bin/nereid.cjs", "bin/tritonserver.cjs", ...programs, "python/stub.py"]) {
    assert.ok(files.includes(expected), expected);
  }
  assert.match(readFileSync(join(project, "node_modules/@nereid/server/NOTICE"), "utf8"), /koffi[\s\S]*MIT License/);
});

for (const [name, program] of [
  ["images", "dist/image-worker.js"],
  ["retrieval", "dist/stores/embedded-worker.js"],
  ["server", "dist/src/protocol/http/json/json-thread.js"],
  ["server", "dist/src/engine/ranks/rank-worker.js"],
] as const) {
  test(`the package of ${name} carries the program of its worker, ${program}`, () => {
    assert.ok(filesInTarball(tarballOf(name)).includes(program));
  });
}

test("the package of offline carries the templates of model repositories", () => {
  const files = filesInTarball(tarballOf("offline"));
  for (const model of ["preprocessing", "tensorrt_llm", "postprocessing", "tensorrt_llm_bls", "ensemble"]) {
    const template = `templates/inflight_batcher_llm/${model}`;
    for (const expected of [`${template}/config.pbtxt`, `${template}/1/.gitkeep`]) {
      assert.ok(files.includes(expected), expected);
    }
  }
});

for (const cpu of ["x64", "arm64"]) {
  test(`the package of ONNX Runtime for linux-${cpu} carries the library, its licence and notices, nothing else`, () => {
    const files = filesInTarball(tarballOf(`onnxruntime-linux-${cpu}`)).sort();
    assert.deepEqual(files, ["LICENSE", "ThirdPartyNotices.txt", "libonnxruntime.so.1", "package.json"]);
  });
}

test("`npm install` brings no package that runs code at install time", () => {
  const packages = installedPackages(project);
  assert.ok(packages.some(({ name }) => name === "@nereid/server"));
  const withHooks = packages.filter(
    ({ folder, scripts }) =>
      HOOKS.some((hook) => Object.hasOwn(scripts, hook)) || existsSync(join(folder, "binding.gyp")),
  );
  assert.deepEqual(withHooks, []);
});

test("`npm install` brings nothing of NVIDIA's", () => {
  const packages = installedPackages(project).map(({ name }) => name);
  assert.deepEqual(packages.filter(isProprietary), []);
  const modules = readdirSync(join(project, "node_modules"), { recursive: true, encoding: "utf8" });
  const libraries = modules.filter((path) => LIBRARY.test(path));
  assert.ok(libraries.some((path) => path.endsWith("libonnxruntime.so.1")));
  assert.deepEqual(
    libraries.filter((path) => NVIDIA_LIBRARY.test(path)),
    [],
  );
});

test("the types of wire and client are complete for a program that uses them", () => {
  const program = 'import * as client from "@nereid/client";\nimport { elementSize } from "@nereid/wire";\n';
  writeFileSync(
    join(project, "program.mts"),
    `${program}export const size: number = elementSize("FP32");\nexport { client };\n`,
  );
  const options = ["--noEmit", "--strict", "--skipLibCheck", "false", "--module", "nodenext", "--target", "es2023"];
  const types = ["--typeRoots", join(ROOT, "node_modules", "@types"), "--types", "node"];
  run(join(ROOT, "node_modules", ".bin", "tsc"), [...options, ...types, "program.mts"], project);
});

test("`npx nereid` names its commands", () => {
  assert.match(run("npx", ["nereid", "--help"], project), /serve +serve a model by its name, or model repositories/);
});

test("each command of `npx nereid` loads from the installed packages", () => {
  const help = run("npx", ["nereid", "--help"], project);
  const commands = [...help.matchAll(/^ {2}([a-z-]+) {2,}/gm)].map(([, name = ""]) => name);
  assert.ok(commands.length > 10, help);
  const program = join(project, "node_modules", ".bin", "nereid");
  for (const command of commands.filter((each) => each !== "serve" && each !== "launch")) {
    assert.match(run(program, [command, "--help"], project), /Usage|usage/, command);
  }
});

test("`nereid doctor` and `nereid types` work on the examples", () => {
  const program = join(project, "node_modules", ".bin", "nereid");
  assert.match(run(program, ["doctor", EXAMPLES], project), /models: \d+ will load$/m);
  const repository = join(temporary, "typescript-models");
  run(program, ["new-model", "--help"], project);
  mkdirSync(join(repository, "m", "1"), { recursive: true });
  writeFileSync(join(repository, "m", "config.pbtxt"), 'backend: "typescript"\n');
  run(program, ["types", repository], project);
  assert.ok(readdirSync(repository, { recursive: true, encoding: "utf8" }).some((file) => file.endsWith(".d.ts")));
});

test("`npx tritonserver` serves the examples to curl and ends cleanly on SIGTERM", { timeout: 600_000 }, async () => {
  const npx = await startServerProcess({
    repositories: [EXAMPLES],
    command: ["env", "-C", project, "npx", "tritonserver"],
    env: plainEnvironment(),
  });
  // A signal to npx would end the shell between it and the server, and say nothing of the server.
  const server = Number(/^I\d{4} \S+ (\d+) http_server\.cc:1\]/m.exec(npx.log())?.[1]);
  try {
    const simple = curl(`${npx.baseUrl}/v2/models/simple/infer`, SIMPLE);
    assert.deepEqual(
      (simple.outputs as { data: number[] }[]).map(({ data }) => data.slice(0, 3)),
      [
        [1, 2, 3],
        [-1, 0, 1],
      ],
    );
    const { model_name, text_output } = curl(`${npx.baseUrl}/v2/models/ensemble/generate`, GENERATE);
    assert.equal(model_name, "ensemble");
    assert.match(String(text_output), /machine learning/);
  } finally {
    process.kill(server, "SIGTERM");
  }
  while (npx.exitCode() === undefined) await sleep(20);
  assert.equal(npx.exitCode(), 0, npx.log());
});

function curl(url: string, body: unknown): Readonly<Record<string, unknown>> {
  return JSON.parse(
    run("curl", ["--silent", "--show-error", "--fail", "-X", "POST", url, "-d", JSON.stringify(body)], project),
  );
}
