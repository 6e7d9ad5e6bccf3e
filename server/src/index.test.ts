import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { openServer } from "./index.ts";

const QUIET = ["--log-info=false", "--log-warning=false", "--log-error=false"];
const MODELS: Readonly<Record<string, string>> = {
  square: `backend: "square" model_transaction_policy { decoupled: true }
    input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ] output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]`,
  same: `backend: "identity" max_batch_size: 8 dynamic_batching { }
    input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 2 ] } ] output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 2 ] } ]`,
};

async function repository(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "nereid-in-process-"));
  for (const [name, config] of Object.entries(MODELS)) {
    await mkdir(join(folder, name, "1"), { recursive: true });
    await writeFile(join(folder, name, "config.pbtxt"), config);
  }
  return folder;
}

test("openServer() serves models to the program that it is a part of", async (context) => {
  const folder = await repository();
  context.after(() => rm(folder, { recursive: true }));
  await using server = await openServer([`--model-repository=${folder}`, ...QUIET]);
  assert.equal(server.isReady, true);
  const { OUTPUT0 } = await server.model("same").infer({ INPUT0: [1, 2, 3, 4] });
  assert.deepEqual([OUTPUT0?.shape, OUTPUT0?.floats], [[2, 2], Float32Array.of(1, 2, 3, 4)]);
  const seen: unknown[] = [];
  for await (const { OUT } of server.model("square").stream({ IN: 3 })) seen.push(...(OUT?.data ?? []));
  assert.deepEqual(seen, [3, 3, 3]);
});

test("openServer() passes on why a call fails, and refuses flags that are none", async (context) => {
  const folder = await repository();
  context.after(() => rm(folder, { recursive: true }));
  await using server = await openServer([
    ...[`--model-repository=${folder}`, "--model-control-mode=explicit", "--load-model=same"],
    ...QUIET,
  ]);
  await assert.rejects(server.model("same").infer({ INPUT0: [1] }), { message: /number does not fit/ });
  await assert.rejects(server.model("none").infer({}), { message: /unknown model: 'none'/ });
  await assert.rejects(server.model("square").stream({ IN: 1 })[Symbol.asyncIterator]().next(), {
    code: /unavailable|not_found/,
  });
  await server.load("square");
  await assert.rejects(server.model("square").infer({ IN: 1 }), { message: /stream/ });
  await server.unload("same");
  await assert.rejects(server.model("same").infer({ INPUT0: [1, 2] }), { message: /not found|no available versions/ });
  await assert.rejects(openServer(["--no-such-flag=1"]), { message: /no-such-flag/ });
});

test("openServer() logs instances, and with --log-verbose=2 what a request asks for and how it goes on", async (context) => {
  const folder = await repository();
  context.after(() => rm(folder, { recursive: true }));
  const file = join(folder, "log.txt");
  const server = await openServer([`--model-repository=${folder}`, `--log-file=${file}`, "--log-verbose=2"]);
  await server.model("same").infer({ INPUT0: [1, 2, 3, 4] });
  await server.stop();
  const text = await readFile(file, "utf8");
  const records = text.split("\n").filter((line) => line.startsWith("I"));
  const messages = records.flatMap((line) => (line.endsWith("]") || line.endsWith("] ") ? [] : [messageOf(line)]));
  const about = (part: string): string[] => messages.filter((message) => message.includes(part));
  assert.deepEqual(about("TRITONBACKEND_ModelInstanceInitialize").sort(), [
    "identity: TRITONBACKEND_ModelInstanceInitialize: same_0 (CPU device 0)",
    "square: TRITONBACKEND_ModelInstanceInitialize: square_0 (CPU device 0)",
  ]);
  assert.deepEqual(about("TRITONBACKEND_ModelFinalize").sort(), [
    "identity: TRITONBACKEND_ModelFinalize: delete model state",
    "square: TRITONBACKEND_ModelFinalize: delete model state",
  ]);
  assert.deepEqual(about("[request id:"), [
    "infer_request: [request id: <id_unknown>] prepared: request id: , model: same, requested version: -1, actual version: 1, flags: 0x0, correlation id: 0, batch size: 2, priority: 0, timeout (us): 0\ninputs:\ninput: INPUT0, type: FP32, original shape: [2,2], batch + shape: [2,2], shape: [2]\noriginal requested outputs:\nrequested outputs:\nOUTPUT0",
    "infer_request: [request id: <id_unknown>] Setting state from INITIALIZED to PENDING",
    "infer_request: [request id: <id_unknown>] Setting state from PENDING to EXECUTING",
    "infer_request: [request id: <id_unknown>] Setting state from EXECUTING to RELEASED",
  ]);
  assert.deepEqual(about("executing"), ["backend_model_instance: model same, instance same_0, executing 1 requests"]);
});

/** File and text of a line of the log. */
function messageOf(line: string): string {
  const [head = "", message = '""'] = line.split(/\.cc:\d+\] /, 2);
  return `${head.split(" ").at(-1)}: ${JSON.parse(message)}`;
}

test("openServer() escapes the messages of its log unless the environment says otherwise", async (context) => {
  const folder = await repository();
  const before = process.env.TRITON_SERVER_ESCAPE_LOG_MESSAGES;
  context.after(async () => {
    if (before === undefined) delete process.env.TRITON_SERVER_ESCAPE_LOG_MESSAGES;
    else process.env.TRITON_SERVER_ESCAPE_LOG_MESSAGES = before;
    await rm(folder, { recursive: true });
  });
  for (const [value, loaded] of [
    ["1", "model_lifecycle.cc:1] \"successfully loaded 'same'\"\n"],
    ["0", "model_lifecycle.cc:1] successfully loaded 'same'\n"],
  ] as const) {
    process.env.TRITON_SERVER_ESCAPE_LOG_MESSAGES = value;
    const file = join(folder, `log-${value}.txt`);
    const server = await openServer([`--model-repository=${folder}`, `--log-file=${file}`]);
    await server.stop();
    const text = await readFile(file, "utf8");
    assert.ok(text.includes(loaded), text);
  }
});
