/** Clients that send large JSON of their own and compare the answers with it, among others that leave anywhere. From a seed. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { RawHttpClient } from "../fakes/raw-http-client.ts";
import { KeepAliveClient } from "./hostile-http.ts";
import { createRandom, type Random } from "./random.ts";

const MIN_TEXT_BYTES = 100_000;
const MAX_TEXT_BYTES = 5_000_000;
const MAX_STAY_MS = 60;
const JSON_TYPE = { "Content-Type": "application/json" };

type Values = readonly (number | string)[];

interface Kind {
  readonly model: string;
  readonly datatype: string;
  /** Approximate bytes of a value in the text. */
  readonly valueBytes: number;
  value(random: Random): number | string;
}

/** Models that answer with `IN` as `OUT`. */
const KINDS: readonly Kind[] = [
  { model: "id_fp32", datatype: "FP32", valueBytes: 20, value: ({ next }) => Math.fround(next() * 2e3 - 1e3) },
  { model: "id_fp32", datatype: "FP32", valueBytes: 5, value: ({ below }) => below(100) / 4 },
  { model: "id_int32", datatype: "INT32", valueBytes: 10, value: ({ below }) => below(2 ** 31) },
  { model: "id_bytes", datatype: "BYTES", valueBytes: 12, value: ({ below }) => `é${below(2 ** 31)}` },
];

interface Message {
  readonly path: string;
  readonly body: Buffer;
  readonly values: Values;
}

export interface LoadCounts {
  numCompared: number;
  numLeft: number;
}

export interface LoadOptions {
  readonly port: number;
  readonly seed: number;
  readonly numClients: number;
  /** Rounds of each client. Its work in them depends on the seed alone. */
  readonly numRounds: number;
}

/** @throws AssertionError when an answer is not what was sent */
export async function loadWithLargeJson({ port, seed, numClients, numRounds }: LoadOptions): Promise<LoadCounts> {
  const counts = { numCompared: 0, numLeft: 0 };
  const client = async (_: unknown, k: number): Promise<void> => {
    const random = createRandom(seed * 1000 + k);
    for (let round = 0; round < numRounds; round++) await random.pick(WAYS)(port, random, counts);
  };
  await Promise.all(Array.from({ length: numClients }, client));
  return counts;
}

function message(random: Random): Message {
  const kind = random.pick(KINDS);
  const numBytes = MIN_TEXT_BYTES * (MAX_TEXT_BYTES / MIN_TEXT_BYTES) ** random.next();
  const values = Array.from({ length: Math.ceil(numBytes / kind.valueBytes) }, () => kind.value(random));
  const input = { name: "IN", datatype: kind.datatype, shape: [values.length], data: values };
  return { path: `/v2/models/${kind.model}/infer`, body: Buffer.from(JSON.stringify({ inputs: [input] })), values };
}

function compare(body: Buffer, values: Values, counts: LoadCounts): void {
  const { outputs } = JSON.parse(body.toString()) as { readonly outputs: readonly { readonly data: Values }[] };
  const answered = outputs[0]?.data ?? [];
  const differsAt = values.findIndex((value, i) => answered[i] !== value);
  assert.deepEqual([answered.length, differsAt], [values.length, -1]);
  counts.numCompared++;
}

async function askOnce(port: number, random: Random, counts: LoadCounts): Promise<void> {
  const { path, body, values } = message(random);
  const isPacked = random.below(4) === 0;
  using client = new KeepAliveClient(port, 1);
  const headers = { ...JSON_TYPE, "Accept-Encoding": isPacked ? "gzip" : "identity" };
  const reply = await client.send({ path, body, headers });
  assert.equal(reply.status, 200, reply.body.subarray(0, 300).toString());
  compare(isPacked ? gunzipSync(reply.body) : reply.body, values, counts);
}

/** Several requests on one connection, none of which waits for an answer. */
async function askInRow(port: number, random: Random, counts: LoadCounts): Promise<void> {
  const client = new RawHttpClient(port);
  const messages = Array.from({ length: 2 + random.below(2) }, () => message(random));
  for (const { path, body } of messages) client.send("POST", path, body, JSON_TYPE);
  for (const { values } of messages) compare((await client.answer()).body, values, counts);
  client.socket.destroy();
}

/** Sends one or two requests, the last perhaps in part, stays for a while and is gone. */
async function leave(port: number, random: Random, counts: LoadCounts): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  await once(socket, "connect");
  const numMessages = 1 + random.below(2);
  for (let k = 1; k <= numMessages; k++) {
    const { path, body } = message(random);
    const end = k === numMessages && random.below(2) === 0 ? random.below(body.length) : body.length;
    socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n`);
    socket.write(body.subarray(0, end));
  }
  // Some read a part of what comes.
  if (random.below(2) === 0) socket.once("data", () => socket.pause());
  await sleep(random.below(MAX_STAY_MS));
  if (random.below(2) === 0) socket.resetAndDestroy();
  else socket.destroy();
  counts.numLeft++;
}

const WAYS: readonly ((port: number, random: Random, counts: LoadCounts) => Promise<void>)[] = [
  askOnce,
  askOnce,
  askInRow,
  leave,
  leave,
];
