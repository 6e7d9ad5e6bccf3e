import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { SharedMemoryObject } from "../fakes/shared-memory-object.ts";
import { testSize } from "../support/long-tests.ts";
import { createModelRepository, EXAMPLES, GOLDEN_MODELS, type ModelRepository } from "../support/model-repository.ts";
import { assertSound, eventually, readMetric } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const NUM_CYCLES = testSize(200, 1000);
const NUM_CUT = testSize(12, 40);
/** Large enough for the model to run on another thread, and to run for a while. */
const LARGE_ELEMENTS: number = 4 * 1024 * 1024;
const INT32_BYTES = 4;
const SLOW = `
  backend: "identity"
  input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
  output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
  parameters { key: "execute_delay_ms" value { string_value: "200" } }`;

let repository: ModelRepository;
let server: ServerProcess;
before(async () => {
  const copies = [`${EXAMPLES}/simple`, `${GOLDEN_MODELS}/id_int32`, `${GOLDEN_MODELS}/id_bytes`];
  repository = await createModelRepository({ copies, files: { "slow/config.pbtxt": SLOW } });
  server = await startServerProcess({ repositories: [repository.path], flags: ["--allow-client-shm=true"] });
});
after(async () => {
  await server.stop();
  await repository[Symbol.asyncDispose]();
});

/** `body` goes as it is when it is text. */
async function post(path: string, body: object | string = {}, signal: AbortSignal | null = null): Promise<Response> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await fetch(`${server.baseUrl}/v2/${path}`, { method: "POST", body: text, signal });
  await response.clone().arrayBuffer();
  return response;
}

async function register(name: string, object: SharedMemoryObject, byteSize: number): Promise<void> {
  const { status } = await post(`systemsharedmemory/region/${name}/register`, { key: object.key, byte_size: byteSize });
  assert.equal(status, 200);
}

async function unregister(name: string): Promise<void> {
  assert.equal((await post(`systemsharedmemory/region/${name}/unregister`)).status, 200);
}

/** An input, and perhaps the output, of a model that gives its input out, in one region. */
function echo(region: string, byteSize: number, outputOffset?: number): object {
  const place = { shared_memory_region: region, shared_memory_byte_size: byteSize };
  const shape = [byteSize / INT32_BYTES];
  const inputs = [{ name: "INPUT0", datatype: "INT32", shape, parameters: place }];
  if (outputOffset === undefined) return { inputs };
  return { inputs, outputs: [{ name: "OUTPUT0", parameters: { ...place, shared_memory_offset: outputOffset } }] };
}

/** Requests of the slow model that the server has taken so far, but for the one that runs. */
async function numTaken(): Promise<number> {
  const waiting = await readMetric(server, "nv_inference_pending_request_count", '"slow"');
  return waiting + (await readMetric(server, "nv_inference_request_success", '"slow"'));
}

function numDescriptors(): number {
  return readdirSync(`/proc/${server.pid}/fd`).length;
}

test("many times registered, used and unregistered: nothing stays mapped or open", async () => {
  using object = new SharedMemoryObject(Buffer.from(Int32Array.of(1, 2, 3, 4).buffer));
  const inputs = ["IN"].map((name) => ({
    name,
    datatype: "INT32",
    shape: [2],
    parameters: { shared_memory_region: "c", shared_memory_byte_size: 8 },
  }));
  const cycle = async (): Promise<void> => {
    await register("c", object, 16);
    assert.equal((await post("models/id_int32/infer", { inputs })).status, 200);
    await unregister("c");
  };
  await cycle();
  const before = numDescriptors();
  for (let i = 1; i < NUM_CYCLES; i++) await cycle();
  assert.equal(object.mappings(server.pid), 0);
  assert.ok(numDescriptors() <= before + 2, `${before} descriptors became ${numDescriptors()}`);
  await assertSound(server);
});

test("regions unregistered while models run: every answer is right, then nothing stays mapped", async () => {
  using object = new SharedMemoryObject(Buffer.from(Int32Array.of(5, 6, 0, 0).buffer));
  await register("u", object, 16);
  const takenBefore = await numTaken();
  const running = Array.from({ length: 8 }, () => post("models/slow/infer", echo("u", 8)));
  const writing = post("models/slow/infer", echo("u", 8, 8));
  await eventually(numTaken, (count) => count >= takenBefore + 8);
  await unregister("u");
  assert.notEqual(object.mappings(server.pid), 0);
  for (const response of await Promise.all(running)) {
    const { outputs } = (await response.json()) as { outputs: { data: number[] }[] };
    assert.deepEqual(outputs[0]?.data, [5, 6]);
  }
  assert.equal((await writing).status, 200);
  assert.deepEqual([...new Int32Array(new Uint8Array(object.read()).buffer)], [5, 6, 5, 6]);
  assert.equal(object.mappings(server.pid), 0);
  await assertSound(server);
});

test("clients that leave while a model reads their region, and regions that go with them, do no harm", async () => {
  using object = new SharedMemoryObject(LARGE_ELEMENTS * INT32_BYTES);
  const parameters = { binary_data_output: true };
  for (let i = 0; i < NUM_CUT; i++) {
    const region = `l${i}`;
    const place = { shared_memory_region: region, shared_memory_byte_size: LARGE_ELEMENTS * INT32_BYTES };
    const inputs = [{ name: "IN", datatype: "INT32", shape: [LARGE_ELEMENTS], parameters: place }];
    const request = { inputs, parameters };
    await register(region, object, LARGE_ELEMENTS * INT32_BYTES);
    const abort = new AbortController();
    const cut = post("models/id_int32/infer", request, abort.signal).then(
      () => "answered",
      () => "cut",
    );
    await sleep((i * 40) / NUM_CUT);
    abort.abort();
    await unregister(region);
    await cut;
  }
  await eventually(
    () => Promise.resolve(object.mappings(server.pid)),
    (count) => count === 0,
  );
  await assertSound(server);
});

test("an object that was made shorter is refused, as input and as output", async () => {
  using object = new SharedMemoryObject(16);
  await register("t", object, 16);
  const takenBefore = await numTaken();
  const first = post("models/slow/infer", echo("t", 16));
  const late = post("models/slow/infer", {
    inputs: [{ name: "INPUT0", datatype: "INT32", shape: [1], data: [1] }],
    outputs: [{ name: "OUTPUT0", parameters: { shared_memory_region: "t", shared_memory_byte_size: 16 } }],
  });
  await eventually(numTaken, (count) => count > takenBefore);
  await first;
  object.resize(0);
  const expected = { error: "Invalid offset + byte size for shared memory region: 't'" };
  assert.deepEqual(await (await post("models/slow/infer", echo("t", 8))).json(), expected);
  assert.deepEqual(await (await late).json(), expected);
  await unregister("t");
  await assertSound(server);
});

const NUMBERS = ["-1", "1.5", "1e400", "18446744073709551615", "18446744073709551616", "9223372036854775808", '"8"'];
for (const number of [...NUMBERS, "null", "[]", "{}", "true", "9007199254740993"]) {
  test(`${number} as an offset or a size is refused`, async () => {
    using object = new SharedMemoryObject(64);
    await register("n", object, 64);
    const bodies = [
      ["systemsharedmemory/region/m/register", `{"key":"${object.key}","byte_size":${number}}`],
      ["systemsharedmemory/region/m/register", `{"key":"${object.key}","byte_size":8,"offset":${number}}`],
      ["models/slow/infer", inputAt(`"shared_memory_byte_size":${number}`)],
      ["models/slow/infer", inputAt(`"shared_memory_byte_size":8,"shared_memory_offset":${number}`)],
      ["models/slow/infer", outputAt(`"shared_memory_byte_size":${number}`)],
      ["models/slow/infer", outputAt(`"shared_memory_byte_size":8,"shared_memory_offset":${number}`)],
    ] as const;
    for (const [path, body] of bodies) {
      const { status } = await post(path, body);
      assert.ok(status === 400 || status === 500, `${path} ${body} was answered ${status}`);
    }
    await unregister("n");
    await assertSound(server);
  });
}

function inputAt(place: string): string {
  return `{"inputs":[{"name":"INPUT0","datatype":"INT32","shape":[2],"parameters":{"shared_memory_region":"n",${place}}}]}`;
}

function outputAt(place: string): string {
  return `{"inputs":[{"name":"INPUT0","datatype":"INT32","shape":[2],"data":[1,2]}],"outputs":[{"name":"OUTPUT0","parameters":{"shared_memory_region":"n",${place}}}]}`;
}
