/** `nereid types`: the compiler accepts right uses of real models and refuses each wrong one. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type ClientServer, startClientServer } from "./client-models.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const run = promisify(execFile);
const TYPES_TIMEOUT_MS = 240_000;

const RIGHT = `
import { NereidClient, NereidGrpcClient, tensor, tensorValue } from "@nereid/client";
import type { Models } from "./models.ts";
const client = new NereidClient<Models>({ url: "http://localhost:8000" });
const grpc = new NereidGrpcClient<Models>({ url: "http://localhost:8001" });
const ints = new Int32Array(16);
export async function right(rows: number): Promise<Int32Array> {
  const inputs = { INPUT0: tensorValue("INT32", [rows, 16], ints), INPUT1: tensorValue("INT32", [1, 16], ints) };
  const result = await client.model("simple").infer({ inputs, outputs: ["OUTPUT0"] });
  await grpc.model("simple").infer({ inputs: [tensor("INPUT0", "INT32", [1, 16], ints)] });
  for await (const part of grpc.model("repeat").inferStream({ inputs: { IN: tensorValue("INT32", [3], ints) } })) {
    const index: Uint32Array = part.output("IDX").data;
    void index;
  }
  await client.model("repeat").infer({
    inputs: { IN: tensorValue("INT32", [3], ints), WAIT: tensorValue("UINT32", [1], new Uint32Array(1)) },
  });
  return result.output("OUTPUT0").data;
}
`;
/** Each replaces a part of the right program. */
const WRONG: readonly [what: string, part: string, wrong: string][] = [
  ["an unknown model", 'model("simple").infer({ inputs, outputs', 'model("simpel").infer({ inputs, outputs'],
  ["a missing input", "INPUT1: tensorValue", "INPUT2: tensorValue"],
  [
    "another datatype",
    'INPUT1: tensorValue("INT32", [1, 16], ints)',
    'INPUT1: tensorValue("FP32", [1, 16], new Float32Array(16))',
  ],
  ["elements of another datatype", '"INT32", [1, 16], ints) };', '"INT32", [1, 16], new Float32Array(16)) };'],
  ["another shape", 'INPUT1: tensorValue("INT32", [1, 16]', 'INPUT1: tensorValue("INT32", [1, 15]'],
  ["another rank", 'INPUT1: tensorValue("INT32", [1, 16]', 'INPUT1: tensorValue("INT32", [16]'],
  ["an unknown output", 'outputs: ["OUTPUT0"]', 'outputs: ["OUTPUT2"]'],
  ["an unknown name in a list", 'tensor("INPUT0"', 'tensor("INPUT9"'],
  ["a result of another name", 'result.output("OUTPUT0")', 'result.output("OUTPUT9")'],
  ["a result of another datatype", "const index: Uint32Array", "const index: Float32Array"],
  [
    "an optional input of another datatype",
    'WAIT: tensorValue("UINT32", [1], new Uint32Array(1))',
    'WAIT: tensorValue("INT32", [1], ints)',
  ],
];

let started: ClientServer;
let folder = "";
before(async () => {
  started = await startClientServer();
  // Below the checkout, where the compiler finds the package.
  await mkdir(join(ROOT, ".cache"), { recursive: true });
  folder = await mkdtemp(join(ROOT, ".cache/client-types-"));
});
after(async () => {
  await started?.[Symbol.asyncDispose]();
  if (folder !== "") await rm(folder, { recursive: true });
});

async function nereidTypes(...args: readonly string[]): Promise<string> {
  const program = join(ROOT, "server/bin/nereid.cjs");
  return (await run(process.execPath, [program, "types", ...args], { timeout: TYPES_TIMEOUT_MS })).stdout;
}

/** Messages of the compiler by file. */
async function compile(files: Readonly<Record<string, string>>): Promise<string> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const options = {
    strict: true,
    noEmit: true,
    target: "es2023",
    lib: ["es2023", "esnext.disposable", "dom"],
    module: "nodenext",
    allowImportingTsExtensions: true,
    types: ["node"],
  };
  await writeFile(
    join(folder, "tsconfig.json"),
    JSON.stringify({ compilerOptions: options, files: Object.keys(files) }),
  );
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  return run(process.execPath, [tsc, "-p", folder], { timeout: TYPES_TIMEOUT_MS }).then(
    ({ stdout }) => stdout,
    ({ stdout }: { readonly stdout: string }) => stdout,
  );
}

test("a server and its repository give the same types, every time", { timeout: 600_000 }, async () => {
  const { server, path } = started;
  const [fromServer, fromRepository] = [join(folder, "models.ts"), join(folder, "repository.ts")];
  assert.match(await nereidTypes(server.baseUrl, "--output", fromServer), /^wrote /m);
  assert.match(await nereidTypes(server.baseUrl, "--output", fromServer), /^up to date: /m);
  await nereidTypes(path, "--output", fromRepository);
  const [served, written] = [await readFile(fromServer, "utf8"), await readFile(fromRepository, "utf8")];
  assert.match(served, /readonly INPUT0: \{ readonly datatype: "INT32"; readonly shape: readonly \[number, 16\] \};/);
  // The repository has one model more, which is not loaded.
  const memberOf = (text: string, model: string) =>
    new RegExp(` {2}readonly ${model}: \\{[\\s\\S]*?\\n {2}\\};`).exec(text)?.[0];
  for (const model of ["simple", "repeat", "accumulate", "id_bytes", "id_bf16"]) {
    assert.ok(memberOf(served, model) !== undefined, model);
    assert.equal(memberOf(written, model), memberOf(served, model));
  }
  assert.ok((await nereidTypes(server.baseUrl)).includes(served.trimEnd()));
});

test("the compiler accepts the right program and refuses each wrong one", { timeout: 600_000 }, async () => {
  await nereidTypes(started.server.baseUrl, "--output", join(folder, "models.ts"));
  const programs = WRONG.map(([, part, wrong], index): [string, string] => {
    assert.ok(RIGHT.includes(part), part);
    return [`wrong${index}.ts`, RIGHT.replace(part, wrong)];
  });
  const messages = await compile({ "right.ts": RIGHT, ...Object.fromEntries(programs) });
  const refused = new Set([...messages.matchAll(/(\w+)\.ts\(\d+,\d+\): error/g)].map(([, name = ""]) => name));
  assert.deepEqual([...refused].sort(), programs.map(([name]) => name.replace(".ts", "")).sort(), messages);
});

test("what is no server is told with a fix", async () => {
  await assert.rejects(nereidTypes("http://127.0.0.1:1"), {
    code: 1,
    stderr: /ECONNREFUSED[\s\S]*Check that the server runs/,
  });
});
