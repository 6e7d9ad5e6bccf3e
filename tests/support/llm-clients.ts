/** Clients of the language model of the examples, over HTTP and gRPC, that read their answers or leave in the middle. */

import { type ClientRequest, request } from "node:http";
import type { ClientHttp2Session } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { encode, frame, openSession, STREAM_INFER } from "../../server/src/protocol/grpc/test-peer.test-support.ts";

import type { Random } from "./random.ts";
import type { Ports } from "./server-process.ts";

const KILLED_TOKENS = 1500;
const MAX_LIFE_MS = 1500;

export interface StreamOutcome {
  readonly status: number;
  /** Payloads of the events, in order. */
  readonly events: readonly string[];
  /** The connection broke before the answer's end. */
  readonly isCut: boolean;
}

export interface StreamClient {
  readonly outcome: Promise<StreamOutcome>;
  /** Events so far. */
  received(): number;
  /** Hangs up. */
  destroy(): void;
}

/** One streamed answer on a connection of its own. */
export function openStream(port: number, numTokens: number, prompt = "Once upon a time"): StreamClient {
  let text = "";
  let status = 0;
  let outgoing: ClientRequest | undefined;
  const events = (): string[] => [...text.matchAll(/^data: (.*)$/gm)].map(([, payload]) => payload ?? "");
  const outcome = new Promise<StreamOutcome>((resolve) => {
    const end = (isCut: boolean): void => resolve({ status, events: events(), isCut });
    const path = "/v2/models/ensemble/generate_stream";
    outgoing = request({ host: "127.0.0.1", port, path, method: "POST", agent: false }, (incoming) => {
      status = incoming.statusCode ?? 0;
      incoming.setEncoding("utf8");
      incoming.on("data", (chunk: string) => {
        text += chunk;
      });
      incoming.on("error", () => end(true));
      incoming.on("end", () => end(false));
    });
    outgoing.on("error", () => end(true));
    outgoing.on("close", () => end(true));
    outgoing.end(JSON.stringify({ text_input: prompt, max_tokens: numTokens, stream: true, min_length: numTokens }));
  });
  return { outcome, received: () => events().length, destroy: () => outgoing?.destroy() };
}

/** Starts a streamed answer on a gRPC stream, and returns a function that hangs up. Received data is discarded. */
export function openGrpcStream(session: ClientHttp2Session, numTokens: number): () => void {
  const stream = session.request({
    ":method": "POST",
    ":path": STREAM_INFER,
    "content-type": "application/grpc",
    te: "trailers",
  });
  stream.on("error", () => undefined);
  stream.resume();
  stream.write(frame(encode("inference.ModelInferRequest", ensembleRequest(numTokens))));
  return () => stream.close(8);
}

function ensembleRequest(numTokens: number): object {
  const text = Buffer.from("Once upon a time");
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  const number = Buffer.alloc(4);
  number.writeInt32LE(numTokens);
  const shape = [1, 1];
  return {
    model_name: "ensemble",
    inputs: [
      { name: "text_input", datatype: "BYTES", shape },
      { name: "max_tokens", datatype: "INT32", shape },
      { name: "stream", datatype: "BOOL", shape },
    ],
    raw_input_contents: [Buffer.concat([length, text]), number, Buffer.from([1])],
  };
}

/** Starts `count` streams and kills each: half over HTTP, a quarter cancels a gRPC stream, a quarter drops the connection under it. */
export async function killClients(ports: Ports, count: number, random: Random): Promise<void> {
  const clients = Array.from({ length: count }, async (_, i) => {
    const lifeMs = random.below(MAX_LIFE_MS);
    const session = i % 2 === 0 ? undefined : openSession(ports.grpc);
    const hangUp =
      session === undefined ? openStream(ports.http, KILLED_TOKENS).destroy : openGrpcStream(session, KILLED_TOKENS);
    await sleep(lifeMs);
    if (i % 4 !== 3) hangUp();
    session?.destroy();
  });
  await Promise.all(clients);
}
