/** Calls with broken frames and messages over HTTP/2, for the seeded test and for the long run. Asserts that each one ends. */
import assert from "node:assert/strict";
import type { ClientHttp2Session } from "node:http2";
import { gzipSync } from "node:zlib";
import {
  encode,
  frame,
  int32Bytes,
  MODEL_INFER,
  STREAM_INFER,
} from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import type { Random } from "./random.ts";

const CALL_TIMEOUT_MS = 240_000;
const SERVICE = MODEL_INFER.slice(0, MODEL_INFER.lastIndexOf("/") + 1);
const SIXTEEN = int32Bytes(Array.from({ length: 16 }, (_, i) => i));
/** A good request of the model `simple`. */
export const SIMPLE_MESSAGE: Buffer = encode("inference.ModelInferRequest", {
  model_name: "simple",
  inputs: ["INPUT0", "INPUT1"].map((name) => ({ name, datatype: "INT32", shape: [1, 16] })),
  raw_input_contents: [SIXTEEN, SIXTEEN],
});
const METHODS = [
  MODEL_INFER,
  MODEL_INFER,
  STREAM_INFER,
  ...["ServerLive", "ModelMetadata", "ModelConfig", "ModelStatistics", "RepositoryIndex", "LogSettings"].map(
    (name) => SERVICE + name,
  ),
];

/** One call with something wrong with it, its end awaited. @returns grpc-status, or "" when the stream was reset */
export async function fuzzGrpcCall(session: ClientHttp2Session, random: Random): Promise<string> {
  const path = random.pick(METHODS);
  const message = mutate(SIMPLE_MESSAGE, random);
  const isCompressed = random.below(5) === 0;
  const body = isCompressed ? frame(mutate(gzipSync(message), random), 1) : frame(message);
  const bytes = random.below(4) === 0 ? mutate(body, random) : body;
  const headers = isCompressed ? { "grpc-encoding": random.pick(["gzip", "deflate", "br"]) } : {};
  const timeout =
    random.below(10) === 0 ? { "grpc-timeout": random.pick(["1n", "0S", "99999999H", "-1S", "x", "5m"]) } : {};
  const stream = session.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
    ...timeout,
  });
  return await new Promise((resolve, reject) => {
    let status = "";
    const timer = setTimeout(
      () => reject(new Error(`${path} did not end: ${bytes.toString("base64")}`)),
      CALL_TIMEOUT_MS,
    );
    stream.on("response", (received) => {
      status ||= String(received["grpc-status"] ?? "");
    });
    stream.on("trailers", (received) => {
      status ||= String(received["grpc-status"] ?? "");
    });
    stream.on("error", () => undefined);
    stream.on("close", () => {
      clearTimeout(timer);
      resolve(status);
    });
    stream.resume();
    stream.end(bytes);
    if (random.below(8) === 0) setImmediate(() => stream.close(8));
  });
}

/** Runs `count` calls, at most `width` at a time. */
export async function fuzzGrpc(
  session: ClientHttp2Session,
  random: Random,
  count: number,
  width: number,
): Promise<void> {
  let left = count;
  const statuses = new Map<string, number>();
  const worker = async (): Promise<void> => {
    while (left-- > 0) {
      const status = await fuzzGrpcCall(session, random);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
  assert.equal(session.destroyed, false, "the server gave up the whole connection");
  assert.ok((statuses.get("0") ?? 0) > 0 && (statuses.get("13") ?? 0) > 0, JSON.stringify([...statuses]));
}

function mutate(bytes: Buffer, random: Random): Buffer {
  const copy = Buffer.from(bytes);
  switch (random.below(5)) {
    case 0:
      return copy.subarray(0, random.below(copy.length + 1));
    case 1:
      return Buffer.concat([copy, random.bytes(random.below(30))]);
    case 2:
      return copy;
    default:
      for (let left = 1 + random.below(4); left > 0; left -= 1) copy[random.below(copy.length)] = random.below(256);
      return copy;
  }
}
