import assert from "node:assert/strict";
import { cpus } from "node:os";
import process from "node:process";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { writeRawResults } from "../../bench/raw-results.ts";
import { KeepAliveClient, type Reply } from "../support/hostile-http.ts";
import { testSize } from "../support/long-tests.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { assertSound } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

/** The limit of a body, 64 MiB, by `npm run test:long`. */
const BODY_MIB = testSize(8, 64);
const BODY_BYTES = BODY_MIB * 1024 * 1024;
const POLL_MS = 10;
const NUM_PARTS = 32;
const SIMPLE = "/v2/models/simple/infer";

let server: ServerProcess;
before(async () => {
  server = await startServerProcess({
    repositories: [EXAMPLES],
    flags: ["--model-control-mode=explicit", "--load-model=simple"],
  });
});
after(() => server.stop());

/** `part` repeated between the two ends, as long as the limit allows. */
function fill(start: string, part: string, end: string): Buffer {
  const room = BODY_BYTES - start.length - end.length;
  return Buffer.concat([Buffer.from(start), Buffer.alloc(room - (room % part.length), part), Buffer.from(end)]);
}

const INPUT = '{"inputs":[{"name":"INPUT0","datatype":"INT32","shape":[1,16],"data":[';
const LATE = '{"inputs":[{"data":[';
const BYTES = '{"inputs":[{"name":"INPUT0","datatype":"BYTES","shape":[1,16],"data":[';
const bodies: readonly [what: string, body: () => Buffer][] = [
  ["numbers", () => fill(INPUT, "12345,", "1]}]}")],
  ["numbers before their datatype", () => fill(LATE, "1,", '1],"datatype":"INT32","shape":[1,16]}]}')],
  ["strings", () => fill(BYTES, '"abc",', '"a"]}]}')],
  ["empty arrays", () => fill(INPUT, "[],", "[]]}]}")],
  ["objects in place of numbers", () => fill(INPUT, "{},", "1]}]}")],
  ["an array nobody reads", () => fill('{"x":[', '{"a":1},', '1],"inputs":[]}')],
];

/** Health as a probe sees it while the body is on its way and read. */
async function askHealthDuring(client: KeepAliveClient, work: Promise<Reply>): Promise<readonly number[]> {
  let isOver = false;
  const over = (): void => {
    isOver = true;
  };
  work.then(over, over);
  const answeredAtMs = [performance.now()];
  while (!isOver) {
    await askHealth(client);
    answeredAtMs.push(performance.now());
    await sleep(POLL_MS);
  }
  return answeredAtMs;
}

async function askHealth(client: KeepAliveClient): Promise<void> {
  const { status } = await client.send({ method: "GET", path: "/v2/health/live" });
  assert.equal(status, 200);
}

/** Each part is followed by a question for health, and the next goes when that is answered: no reading may hold it up. */
async function* inParts(body: Buffer, client: KeepAliveClient, counts: { numAnswers: number }): AsyncGenerator<Buffer> {
  const numBytes = Math.ceil(body.length / NUM_PARTS);
  for (let start = 0; start < body.length; start += numBytes) {
    yield body.subarray(start, start + numBytes);
    await askHealth(client);
    counts.numAnswers++;
  }
}

const measured: Record<string, { readonly answers: number; readonly largestGapMs: number; readonly totalMs: number }> =
  {};
for (const [what, body] of bodies) {
  test(`health is answered while ${BODY_MIB} MiB of ${what} are read`, async () => {
    using client = new KeepAliveClient(server.http, 2);
    using prober = new KeepAliveClient(server.http, 1);
    using between = new KeepAliveClient(server.http, 1);
    const bytes = body();
    const counts = { numAnswers: 0 };
    const headers = { "Content-Length": String(bytes.length) };
    const work = client.send({ path: SIMPLE, headers, parts: inParts(bytes, between, counts) });
    const answers = await askHealthDuring(prober, work);
    const { status, body: text } = await work;
    assert.ok(status === 400 || status === 500, `${status} ${text.toString().slice(0, 200)}`);
    assert.equal(counts.numAnswers, NUM_PARTS);
    const gaps = answers.slice(1).map((ms, i) => ms - (answers[i] ?? ms));
    const totalMs = (answers.at(-1) ?? 0) - (answers[0] ?? 0);
    measured[what] = {
      answers: answers.length,
      largestGapMs: Math.round(Math.max(...gaps)),
      totalMs: Math.round(totalMs),
    };
    await assertSound(server);
  });
}

after(() => {
  if (process.env.NEREID_RECORD !== "1") return;
  const machine = `${cpus().length} x ${cpus()[0]?.model ?? "unknown"}`;
  const record = { bodyBytes: BODY_BYTES, pollMs: POLL_MS, node: process.version, machine, measured };
  writeRawResults("big-body", record);
});
