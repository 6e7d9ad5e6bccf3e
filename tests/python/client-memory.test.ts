import assert from "node:assert/strict";
import { closeSync, existsSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, afterEach, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { SharedMemoryObject } from "../fakes/shared-memory-object.ts";
import { pythonVenv } from "../python-venv.ts";
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";
import { eventually } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const MODEL = readFileSync(fileURLToPath(new URL("client_memory_model.py", import.meta.url)), "utf8");
const CONFIG = `backend: "python"
input [{ name: "IN" data_type: TYPE_INT32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_INT32 dims: [-1] }, { name: "SEEN" data_type: TYPE_STRING dims: [1] }]`;
const INT32_BYTES = 4;
/** More than is copied. */
const LARGE = 1024 * 1024;
const LARGE_BYTES: number = LARGE * INT32_BYTES;
const NUM_KEPT = 20;
const PAGE_BYTES = 4096;
const LOST =
  /The shared memory of an input has become shorter, or cannot be mapped\. Keep its size until the request has ended/;

const venv = await pythonVenv(["numpy"]);
const skip = process.platform === "linux" ? venv.reason : "shared memory needs Linux";
let repository: ModelRepository;
let server: ServerProcess;

/** The model's report about its input. */
interface Seen {
  readonly pid: number;
  readonly place: string;
  readonly sum: number;
  readonly residentBytes: number;
  readonly kept?: readonly number[];
  readonly keptPlaces?: readonly string[];
}

interface Part {
  readonly offset?: number;
  readonly elements?: number;
  readonly parameters?: Readonly<Record<string, string>>;
}

async function post(path: string, body: object): Promise<Response> {
  return fetch(`${server.baseUrl}/v2/${path}`, { method: "POST", body: JSON.stringify(body) });
}

function ask(mode: string, { offset = 0, elements = LARGE, parameters = {} }: Part = {}): Promise<Response> {
  const place = {
    shared_memory_region: "r",
    shared_memory_offset: offset,
    shared_memory_byte_size: elements * INT32_BYTES,
  };
  return post(`models/look/infer`, {
    parameters: { mode, ...parameters },
    inputs: [{ name: "IN", datatype: "INT32", shape: [elements], parameters: place }],
    outputs: [{ name: "SEEN" }],
  });
}

async function seenIn(response: Response): Promise<Seen> {
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const { outputs } = JSON.parse(text) as { outputs: readonly { data: readonly string[] }[] };
  return JSON.parse(outputs[0]?.data[0] ?? "") as Seen;
}

async function look(mode: string, part?: Part): Promise<Seen> {
  return seenIn(await ask(mode, part));
}

async function register(object: SharedMemoryObject, offset = 0, byteSize: number = LARGE_BYTES): Promise<void> {
  const body = { key: object.key, offset, byte_size: byteSize };
  assert.equal((await post("systemsharedmemory/region/r/register", body)).status, 200);
}

async function unregister(): Promise<void> {
  assert.equal((await post("systemsharedmemory/region/r/unregister", {})).status, 200);
}

/** An object of ones. */
function ones(numBytes: number = LARGE_BYTES): SharedMemoryObject {
  return new SharedMemoryObject(contentOf(1, numBytes));
}

function contentOf(value: number, numBytes: number = LARGE_BYTES): Uint8Array {
  return new Uint8Array(new Int32Array(numBytes / INT32_BYTES).fill(value).buffer);
}

/** As a client does that uses its memory again. */
function overwrite(object: SharedMemoryObject, value: number): void {
  const descriptor = openSync(object.path, "r+");
  writeSync(descriptor, contentOf(value));
  closeSync(descriptor);
}

/** Starts a request that runs until `go()`. */
async function held(name: string): Promise<{ answer: Promise<Response>; go: () => void }> {
  const files = { running: join(repository.path, `${name}.running`), go: join(repository.path, `${name}.go`) };
  const answer = ask("wait", { parameters: files });
  await eventually(
    () => Promise.resolve(existsSync(files.running)),
    (isRunning) => isRunning,
  );
  return { answer, go: () => writeFileSync(files.go, "") };
}

describe("an input of a Python model in a client's shared memory", { skip, timeout: 600_000 }, () => {
  before(async () => {
    repository = await createModelRepository({
      files: {
        "look/config.pbtxt": CONFIG,
        "look/1/model.py": MODEL,
      },
    });
    server = await startServerProcess({
      repositories: [repository.path],
      env: { NEREID_PYTHON: venv.python },
      flags: ["--allow-client-shm=true"],
    });
  });
  after(async () => {
    await server.stop();
    await repository[Symbol.asyncDispose]();
  });

  // For a test that has failed.
  afterEach(unregister);

  test("is read where it lies, from any offset that suits arrays", async () => {
    using object = ones(2 * LARGE_BYTES);
    await register(object, PAGE_BYTES, LARGE_BYTES + PAGE_BYTES);
    for (const offset of [0, 64, PAGE_BYTES]) {
      const { place, sum, pid } = await look("look", { offset });
      assert.deepEqual({ place, sum }, { place: object.path, sum: LARGE });
      assert.equal(object.mappings(pid), 0);
    }
    await unregister();
    assert.equal(object.mappings(server.pid), 0);
  });

  const copied: readonly (readonly [string, Part])[] = [
    ["small", { elements: 1000 }],
    ["at an odd offset", { offset: INT32_BYTES, elements: LARGE - 1 }],
  ];
  for (const [what, part] of copied) {
    test(`is copied when it is ${what}`, async () => {
      using object = ones();
      await register(object);
      const { place, sum } = await look("send", part);
      assert.notEqual(place, object.path);
      assert.equal(sum, part.elements ?? LARGE);
      await unregister();
    });
  }

  test("is the model's own to write to", async () => {
    using object = ones();
    await register(object);
    assert.equal((await look("write")).sum, 7 * LARGE);
    assert.ok(object.read().equals(contentOf(1)));
    assert.equal((await look("look")).sum, LARGE);
    await unregister();
  });

  for (const mode of ["keep", "raise"]) {
    test(`stays as it was when the model keeps it ('${mode}') and the client writes something else`, async () => {
      using object = ones();
      await register(object);
      await (await ask(mode)).text();
      overwrite(object, 5);
      object.resize(0);
      object.resize(LARGE_BYTES);
      const { kept, keptPlaces } = await look("forget");
      assert.deepEqual({ kept, keptPlaces }, { kept: [1], keptPlaces: [""] });
      await unregister();
    });
  }

  test("takes no memory any more when the model lets go of what it has kept", async () => {
    using object = ones();
    await register(object);
    await look("forget");
    const before = await look("look");
    for (let round = 0; round < NUM_KEPT; round += 1) {
      await look("keep");
      await look("forget");
    }
    const { residentBytes } = await look("look");
    assert.ok(residentBytes - before.residentBytes < (NUM_KEPT * LARGE_BYTES) / 2, `${residentBytes} bytes`);
    await unregister();
  });

  test("may be answered by a thread, later", async () => {
    using object = ones();
    await register(object);
    const { place, sum, pid } = await look("send");
    assert.deepEqual({ place, sum }, { place: object.path, sum: LARGE });
    await look("look");
    assert.equal(object.mappings(pid), 0);
    await unregister();
  });

  test("comes back as an output", async () => {
    using object = ones();
    await register(object);
    const place = { shared_memory_region: "r", shared_memory_byte_size: LARGE_BYTES };
    const response = await post("models/look/infer", {
      parameters: { mode: "write" },
      inputs: [{ name: "IN", datatype: "INT32", shape: [LARGE], parameters: place }],
      outputs: [{ name: "OUT", parameters: place }],
    });
    assert.equal(response.status, 200, await response.text());
    assert.ok(object.read().equals(contentOf(7)));
    await unregister();
  });

  test("is there until the request has ended, also when its region is unregistered and its name removed", async () => {
    using object = ones();
    await register(object);
    const { answer, go } = await held("unregistered");
    await unregister();
    object[Symbol.dispose]();
    go();
    const { sum, place } = await seenIn(await answer);
    assert.deepEqual({ sum, place }, { sum: LARGE, place: object.path });
    assert.equal((await ask("look")).status, 404);
  });

  test("is of the object that was registered, not of another that has taken its name", async () => {
    using object = ones();
    await register(object);
    object[Symbol.dispose]();
    writeFileSync(object.path, contentOf(9));
    assert.equal((await look("look")).sum, LARGE);
    await unregister();
    await register(object);
    assert.equal((await look("look")).sum, 9 * LARGE);
    await unregister();
  });

  test("costs its own request alone when the client takes it away", async () => {
    using object = ones();
    await register(object);
    const { pid } = await look("look");
    const { answer, go } = await held("shrunk");
    const waiting = post("models/look/infer", {
      parameters: { mode: "look" },
      inputs: [{ name: "IN", datatype: "INT32", shape: [2], data: [3, 4] }],
      outputs: [{ name: "SEEN" }],
    });
    object.resize(PAGE_BYTES);
    go();
    const failed = await answer;
    assert.equal(failed.status, 500);
    assert.match(await failed.text(), LOST);
    const other = await seenIn(await waiting);
    assert.deepEqual({ sum: other.sum, pid: other.pid }, { sum: 7, pid });
    object.resize(LARGE_BYTES);
    assert.equal((await look("look")).pid, pid);
    await unregister();
    assert.doesNotMatch(server.log(), /not healthy/);
  });

  test("fails its request before the model runs when it is gone by then", async () => {
    using object = ones();
    await register(object);
    const { answer, go } = await held("busy");
    const late = ask("keep");
    await eventually(
      async () => (await fetch(`http://127.0.0.1:${server.metrics}/metrics`)).text(),
      (text) => /nv_inference_pending_request_count\{model="look"[^}]*\} 1/.test(text),
    );
    object.resize(0);
    go();
    for (const response of await Promise.all([answer, late])) assert.match(await response.text(), LOST);
    object.resize(LARGE_BYTES);
    assert.deepEqual((await look("forget")).kept, []);
    await unregister();
  });
});
