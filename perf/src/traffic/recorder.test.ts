import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { readRecording } from "./read-recording.ts";
import { Recorder, type RecorderOptions, splitGrpcMessages } from "./recorder.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-recorder-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const CALL = { protocol: "http", method: "POST", path: "/v2/models/m/infer", headers: [["Cookie", "c"]] } as const;
const OK = { status: 200, headers: [] } as const;

function recorderAt(name: string, part: Partial<RecorderOptions> = {}): Recorder {
  return new Recorder({
    path: join(folder, `${name}.jsonl`),
    server: "http://s",
    sample: 1,
    seed: 1,
    maxRequests: 100,
    maxFileBytes: 1e6,
    maxBodyBytes: 1000,
    maxQueueBytes: 1e6,
    redaction: { headers: [], fields: ["user"], tensors: [], patterns: [] },
    ...part,
  });
}

test("Recorder writes what readRecording() reads, in the order of the requests", async () => {
  const recorder = recorderAt("order");
  const [first, second] = [recorder.begin(CALL), recorder.begin({ ...CALL, path: "/v1/completions" })];
  second?.request(Buffer.from('{"user":"u"}'));
  second?.end(OK);
  first?.request(Buffer.from([0, 1]));
  first?.request(Buffer.from([2]));
  first?.answer(Buffer.from("{}"));
  first?.end(OK);
  await recorder.close();
  const { exchanges, numWithoutBody } = readRecording(join(folder, "order.jsonl"));
  assert.deepEqual(
    exchanges.map(({ path }) => path),
    ["/v1/completions"],
  );
  assert.equal(numWithoutBody, 1, "rules cannot be applied to bytes, so they are left out");
  assert.equal(exchanges[0]?.bodies[0]?.toString(), '{"user":"(redacted)"}');
  assert.deepEqual(exchanges[0]?.headers, [["Cookie", "(redacted)"]]);
  assert.equal(statSync(join(folder, "order.jsonl")).mode & 0o777, 0o600);
});

test("Recorder keeps binary bodies in a file beside it", async () => {
  const recorder = recorderAt("binary", { redaction: { headers: [], fields: [], tensors: [], patterns: [] } });
  for (const byte of [1, 2]) {
    const capture = recorder.begin(CALL);
    capture?.request(Buffer.from([0, byte]));
    capture?.answer(Buffer.from([255, byte]));
    capture?.end(OK);
  }
  await recorder.close();
  assert.deepEqual(readFileSync(join(folder, "binary.bin")), Buffer.from([0, 1, 255, 1, 0, 2, 255, 2]));
  const { exchanges } = readRecording(join(folder, "binary.jsonl"));
  assert.deepEqual(
    exchanges.map(({ bodies, answer }) => [bodies[0], answer.bodies?.[0]]),
    [
      [Buffer.from([0, 1]), Buffer.from([255, 1])],
      [Buffer.from([0, 2]), Buffer.from([255, 2])],
    ],
  );
});

test("Recorder drops what is too large, unfinished, or beyond its memory and its limit, and counts each", async () => {
  const recorder = recorderAt("drops", { maxBodyBytes: 10, maxQueueBytes: 400, maxRequests: 1 });
  recorder.begin(CALL)?.request(Buffer.alloc(11));
  recorder.begin(CALL)?.abandon();
  const held = recorder.begin(CALL);
  assert.equal(recorder.begin(CALL), undefined);
  held?.end(OK);
  await recorder.isFull;
  assert.equal(recorder.begin(CALL), undefined);
  await recorder.close();
  assert.equal(recorder.counts.recorded, 1);
  assert.deepEqual(recorder.counts.dropped, {
    "too large": 1,
    "queue full": 0,
    unfinished: 1,
    "limit reached": 2,
    "write failed": 0,
  });
  const small = recorderAt("queue", { maxQueueBytes: 1 });
  small.begin(CALL)?.request(Buffer.alloc(2));
  await small.close();
  assert.equal(small.counts.dropped["queue full"], 1);
});

test("Recorder samples a share of the requests", async () => {
  const recorder = recorderAt("sample", { sample: 0.3, maxRequests: 10_000 });
  for (let k = 0; k < 1000; k++) recorder.begin(CALL)?.abandon();
  await recorder.close();
  assert.ok(Math.abs(recorder.counts.sampled - 300) < 60, String(recorder.counts.sampled));
});

test("Recorder goes on without a file that cannot be written", async () => {
  const recorder = recorderAt("absent/folder");
  await recorder.isFull;
  assert.equal(recorder.begin(CALL), undefined);
  assert.equal(recorder.counts.dropped["write failed"], 1);
  assert.ok(recorder.failure);
  await recorder.close();
});

test("splitGrpcMessages() refuses cut and compressed messages", () => {
  assert.deepEqual(splitGrpcMessages(Buffer.from([0, 0, 0, 0, 1, 9, 0, 0, 0, 0, 0])), [
    Buffer.from([9]),
    Buffer.alloc(0),
  ]);
  assert.equal(splitGrpcMessages(Buffer.from([1, 0, 0, 0, 0])), undefined);
  assert.equal(splitGrpcMessages(Buffer.from([0, 0, 0, 0, 2, 9])), undefined);
});

test("readRecording() names the file and the line that is wrong", async () => {
  const recorder = recorderAt("wrong");
  await recorder.close();
  appendFileSync(join(folder, "wrong.jsonl"), '{"at_ms":1}\n');
  assert.throws(
    () => readRecording(join(folder, "wrong.jsonl")),
    /expected an exchange with at_ms, protocol, path, body and answer/,
  );
  assert.throws(() => readRecording(join(folder, "none.jsonl")), /Cannot read .*none\.jsonl: it does not exist/);
});
