import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { getPriority } from "node:os";
import process from "node:process";
import { test } from "node:test";
import { threadProgram } from "../../../../../tests/support/source-loader.ts";
import type { InferResponse } from "../../../core/infer-response.ts";
import type { ServedModel } from "../../../core/model-server.ts";
import type { AtEnd } from "../http-call.ts";
import { JSON_FORM } from "../infer/http-infer-request.ts";
import { JsonInferCodec, MAX_BYTES_AT_ONCE } from "../infer/infer-codec.ts";
import type { Lease } from "../transport/buffer-pool.ts";
import { ClientGone } from "../transport/read-body.ts";
import { JsonThreads, MIN_OUTPUT_BYTES, MIN_TEXT_BYTES } from "./json-threads.ts";

const COUNT = 100_000;
const SERVED = { config: { max_batch_size: 0 } } as unknown as ServedModel;
const JSON_FORMS = { forms: new Map(), defaultForm: JSON_FORM };
const PROGRAM = threadProgram(new URL("json-thread.ts", import.meta.url));
const BROKEN = new URL("data:text/javascript,throw new Error('no')");

/** A codec with threads that have shown that they work. */
async function codecWithThreads(count = 1): Promise<JsonInferCodec> {
  const threads = new JsonThreads(count, PROGRAM);
  await threads.write("INT32", new Uint8Array(MIN_OUTPUT_BYTES), MIN_OUTPUT_BYTES / 4);
  return new JsonInferCodec(threads);
}

function values(): Float32Array {
  return Float32Array.from({ length: COUNT }, (_, i) => (i % 1000) / 7 - 50);
}

/** How far the threads of this process stand back, by the system's numbers. */
function priorities(): number[] {
  const tasks = "/proc/self/task";
  return readdirSync(tasks).map((id) => {
    const stat = readFileSync(`${tasks}/${id}/stat`, "latin1");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[16]);
  });
}

/** A text in memory of its own. */
function ownBytes(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return bytes;
}

function requestText(more: object = {}): string {
  const input = { name: "X", datatype: "FP32", shape: [COUNT], data: [...values()] };
  const small = { name: "Y", datatype: "BYTES", shape: [2], data: ["a", "bc"] };
  return JSON.stringify({ id: "7", parameters: { big: 5, flag: true }, inputs: [input, small], ...more });
}

function response(): InferResponse {
  const outputs = [
    { name: "A", datatype: "FP32", shape: [COUNT], data: new Uint8Array(values().buffer) },
    { name: "B", datatype: "INT32", shape: [2], data: new Uint8Array(Int32Array.of(1, -2).buffer) },
    { name: "C", datatype: "INT64", shape: [5000], data: new Uint8Array(5000 * 8).fill(255) },
  ];
  const head = { id: "7", modelName: "m", modelVersion: "1", parameters: new Map() };
  return { ...head, outputs, final: true, empty: false } as unknown as InferResponse;
}

test("a thread reads what the event loop reads", async () => {
  const text = requestText();
  const given = ownBytes(text);
  const beside = await (await codecWithThreads()).readRequest(given);
  assert.equal(given.length, 0, "the text was not given to a thread");
  assert.deepEqual(beside, await new JsonInferCodec().readRequest(Buffer.from(text)));
});

test("a text that shares its memory with others stays whole", async () => {
  const text = requestText();
  const shared = Buffer.concat([Buffer.from(text), Buffer.from("tail")]).subarray(0, text.length);
  const beside = await (await codecWithThreads()).readRequest(shared);
  assert.equal(shared.toString(), text);
  assert.deepEqual(beside, await new JsonInferCodec().readRequest(Buffer.from(text)));
});

const FAULTS: readonly (readonly [what: string, text: string])[] = [
  ["a missing quote", requestText().replace('"FP32"', '"FP32')],
  ["an end too early", requestText().slice(0, -1)],
  ["a depth beyond the limit", `${"[".repeat(MIN_TEXT_BYTES)}`],
];
for (const [what, text] of FAULTS) {
  test(`${what} in a large text is told as in a small one`, async () => {
    const read = async (codec: JsonInferCodec): Promise<unknown> => codec.readRequest(ownBytes(text));
    const expected = await read(new JsonInferCodec()).catch((error: unknown) => String(error));
    await assert.rejects(read(await codecWithThreads()), (error) => String(error) === expected);
  });
}

test("members that cannot be sent between threads are read all the same", async () => {
  const text = requestText({ id: [1], outputs: {} });
  const beside = await (await codecWithThreads()).readRequest(ownBytes(text));
  assert.deepEqual(beside, await new JsonInferCodec().readRequest(Buffer.from(text)));
});

test("large outputs written by threads give the same answer, in their places", async () => {
  const written = await (await codecWithThreads(2)).writeResponse(response(), JSON_FORMS, SERVED);
  const expected = await new JsonInferCodec().writeResponse(response(), JSON_FORMS, SERVED);
  assert.ok(written.body.length > expected.body.length, "no thread has written anything");
  assert.equal(Buffer.concat(written.body).equals(Buffer.concat(expected.body)), true);
});

test("memory of a response that nobody waits for is leased again once the thread has written it, not before", async () => {
  const threads = new JsonThreads(1, PROGRAM);
  const data = new Uint8Array(values().buffer);
  await threads.write("FP32", data, COUNT);
  const write = (atEnd: AtEnd): Promise<Uint8Array | undefined> | undefined =>
    threads.write("FP32", data, COUNT, { atEnd, isCancelled: false });
  const [first, second] = await Promise.all([write((release) => release()), write(() => undefined)]);
  const third = await write(() => undefined);
  assert.notEqual(second?.byteOffset, first?.byteOffset);
  assert.equal(third?.byteOffset, first?.byteOffset);
  assert.deepEqual(third, await threads.write("FP32", data, COUNT));
});

test("a thread that starts while texts take all memory works in it afterwards", async () => {
  const threads = new JsonThreads(1, PROGRAM);
  const leases: Lease[] = [];
  for (let lease = threads.lease(MIN_TEXT_BYTES); lease !== undefined; lease = threads.lease(MIN_TEXT_BYTES))
    leases.push(lease);
  const data = new Uint8Array(values().buffer);
  const write = (): Promise<Uint8Array | undefined> | undefined =>
    threads.write("FP32", data, COUNT, { atEnd: () => undefined, isCancelled: false });
  const first = await write();
  for (const { release } of leases) release();
  const second = await write();
  assert.deepEqual(
    [first?.buffer instanceof SharedArrayBuffer, second?.buffer === leases[0]?.bytes.buffer],
    [false, true],
  );
  assert.deepEqual(first, second);
});

test("work for a client that goes before its turn is not done, by nobody", async () => {
  const threads = new JsonThreads(1, PROGRAM);
  const data = new Uint8Array(values().buffer);
  await threads.write("FP32", data, COUNT);
  const codec = new JsonInferCodec(threads);
  const call = { isCancelled: false, atEnd: (release: () => void) => release() };
  // Two are the thread's at once, the others wait for their turn.
  const early = [1, 2].map(() => threads.write("FP32", data, COUNT));
  const late = [
    codec.readRequest(ownBytes(requestText()), call),
    codec.writeResponse(response(), JSON_FORMS, SERVED, call),
  ];
  const after = threads.write("FP32", data, COUNT);
  call.isCancelled = true;
  for (const work of late) await assert.rejects(Promise.resolve(work), ClientGone);
  const texts = await Promise.all([...early, after]);
  assert.ok(texts.every((text) => text !== undefined && text.length > COUNT));
});

test("work in slices ends when its client goes", async () => {
  const call = { isCancelled: false, atEnd: (release: () => void) => release() };
  const data = Array.from({ length: 5 * COUNT }, (_, i) => i / 7);
  const text = JSON.stringify({ inputs: [{ name: "X", datatype: "FP32", shape: [data.length], data }] });
  assert.ok(text.length > MAX_BYTES_AT_ONCE);
  const { inputs: read } = await new JsonInferCodec().readRequest(ownBytes(text), call);
  assert.equal(Array.isArray(read) && read.length, 1);
  const gone = new JsonInferCodec().readRequest(ownBytes(text), call);
  call.isCancelled = true;
  await assert.rejects(Promise.resolve(gone), ClientGone);
});

test("a hundred requests at once are read, by threads or beside them", async () => {
  const codec = await codecWithThreads(2);
  const text = JSON.stringify({ inputs: [], parameters: { filler: "x".repeat(MIN_TEXT_BYTES) } });
  const requests = await Promise.all(Array.from({ length: 100 }, async () => codec.readRequest(ownBytes(text))));
  assert.ok(requests.every(({ inputs }) => Array.isArray(inputs) && inputs.length === 0));
});

test("JsonThreads does nothing for small work, and nothing when it may have no thread", () => {
  const threads = new JsonThreads(1);
  assert.equal(threads.read(new Uint8Array(MIN_TEXT_BYTES - 1)), undefined);
  assert.equal(threads.write("FP32", new Uint8Array(MIN_OUTPUT_BYTES - 1), 1), undefined);
  assert.equal(new JsonThreads(0).read(new Uint8Array(MIN_TEXT_BYTES)), undefined);
});

test("threads that cannot start cost nobody an answer", async () => {
  const codec = new JsonInferCodec(new JsonThreads(2, BROKEN));
  for (let k = 0; k < 3; k++) {
    const { id } = await codec.readRequest(ownBytes(requestText()));
    assert.equal(id, "7");
    const { body } = await codec.writeResponse(response(), JSON_FORMS, SERVED);
    assert.equal(body.length, 1);
  }
});

test("a thread for JSON stands back behind the event loop", { skip: process.platform !== "linux" }, async () => {
  const own = getPriority();
  await codecWithThreads();
  assert.equal(getPriority(), own);
  assert.ok(priorities().includes(Math.min(own + 10, 19)), `${priorities()}`);
});
