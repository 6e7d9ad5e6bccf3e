/** docs/client.md: its examples give what they say, and its table is complete beside tritonclient and true of the package. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { NereidClient, NereidGrpcClient, SystemMemory } from "@nereid/client";
import { transform } from "esbuild";
import { EXAMPLES, SIMPLE_AND_PIPELINE } from "../support/model-repository.ts";
import { clientVenv, runPython } from "../support/python-checks.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { type ClientServer, startClientServer } from "./client-models.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const NAMES = fileURLToPath(new URL("python/tritonclient_names.py", import.meta.url));
const PROGRAM_TIMEOUT_MS = 240_000;
/** The one model that lies in the pipeline of the examples. */
const PIPELINE_MODEL = 'model("ensemble")';

const page = await readFile(join(ROOT, "docs/client.md"), "utf8");
const examples = [...page.matchAll(/```ts\n([\s\S]*?)```\s+```text\n([\s\S]*?)```/g)].map(
  ([, program = "", output = ""]) => ({ program, output }),
);
const table = page.slice(page.indexOf("## In place of tritonclient"));
const rows = [...table.matchAll(/^\| (`.*) \| (.+) \|$/gm)].map(([, left = "", right = ""]) => ({
  left: namesIn(left),
  right,
}));

let started: ClientServer;
let pipeline: ServerProcess;
let folder = "";
before(async () => {
  started = await startClientServer();
  pipeline = await startServerProcess({ repositories: [EXAMPLES], flags: SIMPLE_AND_PIPELINE });
  // Below the checkout, where programs find the package.
  await mkdir(join(ROOT, ".cache"), { recursive: true });
  folder = await mkdtemp(join(ROOT, ".cache/client-docs-"));
});
after(async () => {
  await pipeline?.stop();
  await started?.[Symbol.asyncDispose]();
  if (folder !== "") await rm(folder, { recursive: true });
});

function namesIn(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
}

test("the page has its examples", () => {
  assert.equal(examples.length, 9);
});

for (const [index, { program, output }] of examples.entries()) {
  const title = program.split("\n").find((line) => line.includes("await")) ?? `${index}`;
  test(`the example with "${title.trim()}" prints what the page says`, { timeout: 600_000 }, async () => {
    const { http, grpc } = program.includes(PIPELINE_MODEL) ? pipeline : started.server;
    const { code } = await transform(program, { loader: "ts", format: "esm" });
    const path = join(folder, `example${index}.mjs`);
    await writeFile(
      path,
      code.replaceAll("localhost:8000", `127.0.0.1:${http}`).replaceAll("localhost:8001", `127.0.0.1:${grpc}`),
    );
    const { stdout } = await promisify(execFile)(process.execPath, [path], { timeout: PROGRAM_TIMEOUT_MS });
    assert.equal(stdout, output);
  });
}

/** Objects as the page names them. */
function objectsOfPage(): Readonly<Record<string, readonly object[]>> {
  const http = new NereidClient({ url: "http://127.0.0.1:1" });
  const grpc = new NereidGrpcClient({ url: "http://127.0.0.1:1" });
  return {
    client: [http, grpc],
    model: [http.model("m"), grpc.model("m")],
    sequence: [http.model("m").sequence()],
    memory: [SystemMemory.prototype],
  };
}

/** Results and streams need a server, so that their methods are looked up in the sources. */
const IN_SOURCES: Readonly<Record<string, string>> = {
  result: "infer-result.ts",
  stream: "grpc/infer-stream.ts",
  "": "tensor.ts",
};

test("each name in the table of tritonclient is one of this package", async () => {
  assert.ok(rows.length > 40, `${rows.length} rows`);
  const sources = join(ROOT, "client/src");
  const files = (await readdir(sources, { recursive: true })).filter((file) => /(?<!\.test)\.ts$/.test(file));
  const texts = await Promise.all(files.map((file) => readFile(join(sources, file), "utf8")));
  const all = texts.join("\n");
  const objects = objectsOfPage();
  const wrong: string[] = [];
  for (const name of rows.filter(({ right }) => !right.startsWith("none:")).flatMap(({ right }) => namesIn(right))) {
    const [, owner = "", path = ""] = /^(?:(\w+)\.)?([\w.]+)\(\)$/.exec(name) ?? [];
    const source = IN_SOURCES[owner];
    const isThere =
      path === ""
        ? new RegExp(`readonly ${name}\\??:|class ${name}\\b`).test(all)
        : source !== undefined
          ? new RegExp(`^\\s*(?:export function |async )?${path}[<(]`, "m").test(
              await readFile(join(sources, source), "utf8"),
            )
          : (objects[owner] ?? []).some((object) => typeof at(object, path) === "function");
    if (!isThere) wrong.push(name);
  }
  assert.deepEqual(wrong, []);
});

function at(object: object, path: string): unknown {
  return path.split(".").reduce<unknown>((value, name) => Reflect.get(Object(value), name), object);
}

test("the table names all that tritonclient has", { skip: clientVenv.reason ?? false, timeout: 600_000 }, async () => {
  const { code, stdout, stderr } = await runPython([NAMES]);
  assert.equal(code, 0, stderr);
  const names: readonly string[] = JSON.parse(stdout);
  assert.deepEqual(rows.flatMap(({ left }) => left).sort(), [...names].sort());
});
