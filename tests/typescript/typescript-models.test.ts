/** Models in TypeScript on a real server: what they can do, and what they cannot do to it. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";
import { eventually, readMetric } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { MODEL_FILES } from "./models.ts";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

let repository: ModelRepository;
let server: ServerProcess;

before(async () => {
  repository = await createModelRepository({ files: MODEL_FILES });
  server = await startServerProcess({
    repositories: [repository.path],
    flags: ["--model-control-mode=explicit", "--load-model=*"],
  });
});

after(async () => {
  await server.stop();
  assert.match(server.log(), /mischief_0_0: finalized/);
  await repository[Symbol.asyncDispose]();
});

interface Reply {
  readonly status: number;
  readonly error?: string;
  readonly outputs: Readonly<Record<string, readonly unknown[]>>;
}

async function infer(model: string, inputs: readonly object[], parameters: object = {}): Promise<Reply> {
  const body = JSON.stringify({ inputs, parameters });
  const response = await fetch(`${server.baseUrl}/v2/models/${model}/infer`, { method: "POST", body });
  const { error, outputs = [] }: { error?: string; outputs?: { name: string; data: unknown[] }[] } = JSON.parse(
    await response.text(),
  );
  const byName = Object.fromEntries(outputs.map(({ name, data }) => [name, data]));
  return { status: response.status, outputs: byName, ...(error === undefined ? {} : { error }) };
}

function int32(name: string, data: readonly number[], shape: readonly number[] = [1, data.length]): object {
  return { name, datatype: "INT32", shape, data };
}

function ask(what: string): Promise<Reply> {
  return infer("mischief", [{ name: "WHAT", datatype: "BYTES", shape: [1], data: [what] }]);
}

async function isReady(path: string): Promise<boolean> {
  return (await fetch(`${server.baseUrl}/v2/${path}/ready`)).ok;
}

test("a model answers with typed arrays, from rows that came together", async () => {
  const { outputs } = await infer("add_sub", [
    int32("A", [1, 2, 3, 4, 5, 6, 7, 8], [2, 4]),
    int32("B", [1, 1, 1, 1, 2, 2, 2, 2], [2, 4]),
  ]);
  assert.deepEqual(outputs, { SUM: [2, 3, 4, 5, 7, 8, 9, 10], DIFF: [0, 1, 2, 3, 3, 4, 5, 6] });
});

test("many requests at once are answered each with its own", async () => {
  const values = Array.from({ length: 200 }, (_, index) => index);
  const replies = await Promise.all(
    values.map((value) => infer("add_sub", [int32("A", [value, 0, 0, 0]), int32("B", [value, 0, 0, 0])])),
  );
  assert.deepEqual(
    replies.map(({ outputs }) => outputs.SUM?.[0]),
    values.map((value) => 2 * value),
  );
});

test("a decoupled model streams what its generator yields", async () => {
  const body = JSON.stringify({ N: 300 });
  const response = await fetch(`${server.baseUrl}/v2/models/count/generate_stream`, { method: "POST", body });
  const values = [...(await response.text()).matchAll(/"VALUE":(\d+)/g)].map(([, value]) => Number(value));
  assert.deepEqual(
    values,
    Array.from({ length: 300 }, (_, index) => index),
  );
});

test("a model that streams waits for a slow client, and stops when the client goes", async () => {
  const many = 100_000_000;
  const controller = new AbortController();
  const body = JSON.stringify({ N: many });
  const init = { method: "POST", body, signal: controller.signal };
  const response = await fetch(`${server.baseUrl}/v2/models/count/generate_stream`, init);
  await response.body?.getReader().read();
  controller.abort();
  const stopped = /stopped at (\d+), cancelled: true/;
  const log = await eventually(
    () => Promise.resolve(server.log()),
    (text) => stopped.test(text),
  );
  assert.ok(Number(stopped.exec(log)?.[1]) < many);
});

test("a model calls other models, streams of them, and hears why a call fails", async () => {
  const { outputs } = await infer("caller", [int32("A", [1, 2, 3, 4], [4])]);
  assert.deepEqual(outputs.SUM, [11, 22, 33, 44]);
  assert.equal(outputs.TEXT?.[0], "100 values to 99");
  assert.match(String(outputs.TEXT?.[1]), /unknown model: 'no-such'/);
});

test("sequences keep their state apart, until they end", async () => {
  const step = (id: number, value: number, flags: object = {}): Promise<Reply> =>
    infer("total", [int32("X", [value])], { sequence_id: id, ...flags });
  await step(1, 10, { sequence_start: true });
  await step(2, 100, { sequence_start: true });
  assert.deepEqual((await step(1, 5)).outputs.TOTAL, [15]);
  assert.deepEqual((await step(2, 5, { sequence_end: true })).outputs.TOTAL, [105]);
  assert.deepEqual((await step(2, 1, { sequence_start: true })).outputs.TOTAL, [1]);
});

test("a sequence whose state went down with its thread is told so", async () => {
  const step = (value: number, flags: object = {}): Promise<Reply> =>
    infer("total", [int32("X", [value])], { sequence_id: 9, ...flags });
  await step(10, { sequence_start: true });
  assert.match((await step(-1)).error ?? "", /It exited with code 1/);
  const lost = await step(5);
  assert.equal(lost.status, 503);
  assert.match(lost.error ?? "", /the state of sequence 9 is lost/);
  assert.deepEqual((await step(1, { sequence_start: true, sequence_end: true })).outputs.TOTAL, [1]);
});

test("batchstrategy.ts decides which requests share a batch, and an Error answers its request alone", async () => {
  const values = [1, 2, 3, 4, 5, 6, 7, 8, 9];
  const replies = await Promise.all(values.map((value) => infer("grouped", [int32("X", [value])])));
  const refused = replies.filter(({ status }) => status !== 200).map(({ error }) => error);
  assert.deepEqual(refused, ["seven is refused alone"]);
  const together = replies.flatMap(({ outputs }) => outputs.TOGETHER ?? []);
  assert.equal(Math.max(...together.map(Number)), 2);
});

test("an error reaches the client with its message and the log with its line", async () => {
  const thrown = await ask("throw");
  assert.deepEqual([thrown.status, thrown.error], [500, "thrown on purpose"]);
  assert.match(server.log(), /thrown on purpose\\n {4}at .*mischief\/1\/model\.ts:15:/);
  const refused = await ask("refuse");
  assert.deepEqual([refused.status, refused.error], [400, "refused on purpose"]);
});

test("enums work, and what a model prints is in the log", async () => {
  assert.deepEqual((await ask("hello")).outputs.ANSWER, ["Calm hello"]);
  await eventually(
    () => Promise.resolve(server.log()),
    (log) => log.includes("mischief_0_0: printed for hello"),
  );
});

for (const [what, cause] of [
  ["exit", /It exited with code 3$/],
  ["later", /It failed: Error: thrown later$/],
  ["loop", /It did not react for 1000 ms/],
] as const) {
  test(`a model that does '${what}' fails what it had started, waits for nobody, and comes back`, async () => {
    const [started, waiting] = await Promise.all([ask(what), ask("next")]);
    assert.equal(started.status, 500);
    assert.match(started.error ?? "", cause);
    assert.deepEqual(waiting.outputs.ANSWER, ["Calm next"]);
    assert.equal(await isReady("health"), true);
    const others = await infer("add_sub", [int32("A", [1, 1, 1, 1]), int32("B", [1, 1, 1, 1])]);
    assert.equal(others.status, 200);
  });
}

test("what a model counts is on the metrics page, and outlives its thread", async () => {
  await ask("counted");
  await ask("exit");
  const other = await ask("counted");
  assert.equal(other.status, 200);
  assert.equal(await readMetric(server, "mischief_total", 'model="mischief"', 'version="1"', 'what="counted"'), 2);
});

test("a load takes the new code, and code that does not load leaves the old one serving", async () => {
  const load = (): Promise<Response> =>
    fetch(`${server.baseUrl}/v2/repository/models/add_sub/load`, { method: "POST" });
  const sum = async (): Promise<unknown> =>
    (await infer("add_sub", [int32("A", [1, 2, 3, 4]), int32("B", [1, 1, 1, 1])])).outputs.SUM;
  await writeFile(
    join(repository.path, "add_sub/1/zip.ts"),
    "export const zip = (a: Int32Array, b: Int32Array) => a.map((value, index) => value * 100 + (b[index] as number));",
  );
  assert.equal((await load()).status, 200);
  assert.deepEqual(await sum(), [101, 201, 301, 401]);
  await writeFile(join(repository.path, "add_sub/1/zip.ts"), "export const zip = (a: Int32Array) => a.;");
  const refused = await load();
  assert.equal(refused.status, 400);
  assert.match(await refused.text(), /add_sub\/1\/zip\.ts:1:\d+: /);
  assert.deepEqual(await sum(), [101, 201, 301, 401]);
});

test("`nereid types` writes types that the models pass and a wrong one does not", { timeout: 600_000 }, async () => {
  const types = await run(process.execPath, [join(ROOT, "server/bin/nereid.cjs"), "types", repository.path]);
  assert.equal(types.stdout.match(/^wrote /gm)?.length, 6);
  const again = await run(process.execPath, [join(ROOT, "server/bin/nereid.cjs"), "types", repository.path]);
  assert.equal(again.stdout.match(/^up to date: /gm)?.length, 6);
  const good = await typeCheck(
    [
      "count/1/model",
      "caller/1/model",
      "total/1/model",
      "mischief/1/model",
      "grouped/1/model",
      "grouped/1/batchstrategy",
    ].map((name) => `${name}.ts`),
  );
  assert.equal(good, "");
  await writeFile(
    join(repository.path, "count/1/wrong.ts"),
    'import type { Model } from "../model-types.d.ts";\nexport const execute: Model["execute"] = ({ inputs }) => ({ VALUE: inputs.N.strings, M: inputs.X });\n',
  );
  const wrong = await typeCheck(["count/1/wrong.ts"]);
  assert.match(wrong, /wrong\.ts\(2,/);
  assert.match(wrong, /'X' does not exist on type 'Inputs'/);
});

/** Output of the compiler. */
async function typeCheck(files: readonly string[]): Promise<string> {
  const flags = [
    "--ignoreConfig",
    "--noEmit",
    "--strict",
    "--target",
    "es2023",
    "--lib",
    "es2023,dom",
    "--module",
    "nodenext",
  ];
  const more = ["--allowImportingTsExtensions", "--types", "node", "--typeRoots", join(ROOT, "node_modules/@types")];
  const paths = files.map((file) => join(repository.path, file));
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  return run(process.execPath, [tsc, ...flags, ...more, ...paths]).then(
    ({ stdout }) => stdout,
    ({ stdout }: { stdout: string }) => stdout,
  );
}
