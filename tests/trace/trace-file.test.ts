/** The trace files of the real server. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { infer, startTracedServer } from "./trace-models.ts";

interface Entry {
  readonly id: number;
  readonly model_name?: string;
  readonly model_version?: number;
  readonly request_id?: string;
  readonly parent_id?: number;
  readonly timestamps?: readonly { readonly name: string; readonly ns: number }[];
  readonly activity?: string;
  readonly tensor?: Readonly<Record<string, string>>;
}

const options = { timeout: 120_000 };

async function traceFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "nereid-trace-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function entriesOf(path: string): Promise<readonly Entry[]> {
  return JSON.parse(await readFile(path, "utf8")) as readonly Entry[];
}

/** The names of the moments of a trace, in the order of their times. */
function momentsOf(entries: readonly Entry[], id: number): string[] {
  const moments = entries.filter((entry) => entry.id === id).flatMap(({ timestamps = [] }) => timestamps);
  return moments
    .map((moment, index) => ({ ...moment, index }))
    .sort((a, b) => a.ns - b.ns || a.index - b.index)
    .map(({ name }) => name);
}

function flags(folder: string, ...more: readonly string[]): string[] {
  return [`triton,file=${folder}/trace.json`, ...more].map((setting) => `--trace-config=${setting}`);
}

test("the trace file holds every moment of a request over HTTP when the server has ended", options, async (t) => {
  const folder = await traceFolder(t);
  const server = await startTracedServer(t, flags(folder, "level=TIMESTAMPS", "rate=1"));
  await infer(server, "same", { id: "r1" });
  await server.stop();
  const entries = await entriesOf(`${folder}/trace.json`);
  const heads = entries.filter(({ model_name }) => model_name !== undefined);
  assert.deepEqual(heads, [{ id: 1, model_name: "same", model_version: 1, request_id: "r1" }]);
  const moments = momentsOf(entries, 1);
  assert.deepEqual(moments.slice(0, 5), [
    "HTTP_RECV_START",
    "HTTP_RECV_END",
    "REQUEST_START",
    "QUEUE_START",
    "COMPUTE_START",
  ]);
  assert.deepEqual(
    new Set(moments.slice(5)),
    new Set([
      "COMPUTE_INPUT_END",
      "COMPUTE_OUTPUT_START",
      "COMPUTE_END",
      "INFER_RESPONSE_COMPLETE",
      "REQUEST_END",
      "HTTP_SEND_START",
      "HTTP_SEND_END",
    ]),
  );
  assert.equal(moments.length, 12);
  assert.equal(moments.at(-1), "HTTP_SEND_END");
});

test("the steps of an ensemble are children of its trace", options, async (t) => {
  const folder = await traceFolder(t);
  const server = await startTracedServer(t, flags(folder, "level=TIMESTAMPS", "rate=1"));
  await infer(server, "both");
  await server.stop();
  const entries = await entriesOf(`${folder}/trace.json`);
  const heads = entries.flatMap(({ id, model_name, parent_id }) =>
    model_name === undefined ? [] : [{ id, model_name, parent_id }],
  );
  assert.deepEqual(heads, [
    { id: 1, model_name: "both", parent_id: undefined },
    { id: 2, model_name: "same", parent_id: 1 },
    { id: 3, model_name: "other", parent_id: 1 },
  ]);
  const computed = [1, 2, 3].map((id) => momentsOf(entries, id).filter((name) => name.startsWith("COMPUTE_")).length);
  assert.deepEqual(computed, [0, 4, 4]);
});

test("level TENSORS shows what went into the queue and the backend, and what came out", options, async (t) => {
  const folder = await traceFolder(t);
  const server = await startTracedServer(t, flags(folder, "level=TENSORS", "rate=1"));
  await infer(server, "same");
  await server.stop();
  const entries = await entriesOf(`${folder}/trace.json`);
  const tensors = entries.filter(({ tensor }) => tensor !== undefined);
  const text = { data: "1,-2,3", shape: "3", dtype: "INT32" };
  assert.deepEqual(tensors, [
    { id: 1, activity: "TENSOR_QUEUE_INPUT", tensor: { name: "INPUT0", ...text } },
    { id: 1, activity: "TENSOR_BACKEND_INPUT", tensor: { name: "INPUT0", ...text } },
    { id: 1, activity: "TENSOR_BACKEND_OUTPUT", tensor: { name: "OUTPUT0", ...text } },
  ]);
  assert.deepEqual(momentsOf(entries, 1), []);
});

test("numbered files hold as many traces as the log frequency says, the last one the rest", options, async (t) => {
  const folder = await traceFolder(t);
  const server = await startTracedServer(t, flags(folder, "level=TIMESTAMPS", "rate=2", "triton,log-frequency=2"));
  for (let i = 0; i < 7; i += 1) await infer(server, "same");
  await server.stop();
  assert.deepEqual((await readdir(folder)).sort(), ["trace.json.0", "trace.json.1"]);
  const models = async (name: string): Promise<number> =>
    (await entriesOf(`${folder}/${name}`)).filter(({ model_name }) => model_name === "same").length;
  assert.deepEqual([await models("trace.json.0"), await models("trace.json.1")], [2, 1]);
});

test(
  "the settings of a model change while the server runs, and its traces end with their count",
  options,
  async (t) => {
    const folder = await traceFolder(t);
    const server = await startTracedServer(t, flags(folder));
    const set = async (path: string, body: object): Promise<unknown> =>
      (await fetch(`${server.baseUrl}${path}/trace/setting`, { method: "POST", body: JSON.stringify(body) })).json();
    await infer(server, "same");
    await set("/v2/models/same", { trace_level: ["TIMESTAMPS"], trace_rate: "1", trace_count: "2" });
    for (let i = 0; i < 4; i += 1) {
      await infer(server, "same");
      await infer(server, "other");
    }
    assert.deepEqual(await set("/v2/models/same", {}), {
      trace_level: ["TIMESTAMPS"],
      trace_rate: "1",
      trace_count: "0",
      log_frequency: "0",
      trace_file: `${folder}/trace.json`,
      trace_mode: "triton",
    });
    await server.stop();
    assert.deepEqual(await readdir(folder), ["trace.json.0"]);
    const heads = (await entriesOf(`${folder}/trace.json.0`)).filter(({ model_name }) => model_name !== undefined);
    assert.deepEqual(
      heads.map(({ model_name }) => model_name),
      ["same", "same"],
    );
  },
);

test("a file that cannot be written costs no request", options, async (t) => {
  const folder = await traceFolder(t);
  const server = await startTracedServer(t, flags(`${folder}/none`, "level=TIMESTAMPS", "rate=1"));
  await infer(server, "same");
  await server.stop();
  assert.match(server.log(), /failed creating trace file: .*ENOENT/);
});
