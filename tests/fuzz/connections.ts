/**
 * Broken bytes on connections to a real server: requests of HTTP/1.1 with broken lines, headers and chunks, and conversations of
 * HTTP/2 with broken frames. Each connection leaves in one of several ways; the server must go on.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { encode, frame as grpcFrame, inferRequest } from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { PREFACE } from "../../server/src/protocol/http2/codes.ts";
import { HeaderEncoder } from "../../server/src/protocol/http2/header-encoder.ts";
import { createRandom, type Random } from "../support/random.ts";
import { frameBytes, mutateFrames } from "./mutators/mutate-frames.ts";
import { textMutator } from "./mutators/mutate-text.ts";

const MAX_PIPELINED = 8;
/** A server that answers nothing is waited for; it ends slow connections itself. */
const LINGER_MS = 30;

const BODY = '{"inputs":[{"name":"INPUT0","datatype":"INT32","shape":[1,16],"data":[1,2]}]}';
const REQUESTS: readonly Buffer[] = [
  "GET /v2/health/ready HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
  `POST /v2/models/simple/infer HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`,
  `POST /v2/models/simple/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${BODY.length.toString(16)};a=b\r\n${BODY}\r\n0\r\nT: 1\r\n\r\n`,
  "POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
].map((text) => Buffer.from(text));
const WORDS: readonly string[] = [
  ..."GET POST HEAD OPTIONS PRI CONNECT HTTP/1.1 HTTP/1.0 HTTP/2.0 HTTP/9.9 / // /v2 /metrics ../ %2e%2e %00 * http://a/v2 \\ ? #".split(
    " ",
  ),
  ..."Content-Length Transfer-Encoding chunked gzip identity Connection close keep-alive upgrade Upgrade h2c Host Expect".split(
    " ",
  ),
  ..."Inference-Header-Content-Length 0 1 5 77 -1 ffffffff 18446744073709551616 1e9 0x10 +5 : ; , = \r\n \n \r \t \0 \u00ff".split(
    " ",
  ),
  "\r\n\r\n",
  " ",
];

const MESSAGE: Buffer = grpcFrame(encode("inference.ModelInferRequest", inferRequest()));
const HEAD: Buffer = new HeaderEncoder().encode(
  [
    ":method",
    "POST",
    ":scheme",
    "http",
    ":path",
    "/inference.GRPCInferenceService/ModelInfer",
    "content-type",
    "application/grpc",
  ],
  false,
);
const FRAMES: Buffer = Buffer.concat([
  frameBytes(4, 0, 0, Buffer.from("000300000064000400010000", "hex")),
  frameBytes(8, 0, 0, Buffer.from([0, 1, 0, 0])),
  frameBytes(1, 4, 1, HEAD),
  frameBytes(0, 1, 1, MESSAGE),
  frameBytes(1, 4, 3, HEAD),
  frameBytes(0, 0, 3, MESSAGE.subarray(0, 9)),
  frameBytes(6, 0, 0, Buffer.alloc(8)),
  frameBytes(3, 0, 3, Buffer.from([0, 0, 0, 8])),
]);

const mutateRequest = textMutator(WORDS);

/** Requests of HTTP/1.1, some of them broken, in a row. */
export function drawRequests(random: Random): Buffer {
  const count = 1 + random.below(MAX_PIPELINED);
  const one = (): Buffer =>
    random.below(3) === 0 ? random.pick(REQUESTS) : mutateRequest(random.pick(REQUESTS), random);
  return Buffer.concat(Array.from({ length: count }, one));
}

export function drawConversation(random: Random): Buffer {
  return Buffer.concat([PREFACE, mutateFrames(FRAMES, random)]);
}

export interface Ports {
  readonly http: number;
  readonly grpc: number;
}

/** Connections `first` to `first + count`, at most `width` at once: half to each port. */
export async function fuzzConnections(
  ports: Ports,
  seed: number,
  first: number,
  count: number,
  width: number,
): Promise<void> {
  let next = first;
  const lane = async (): Promise<void> => {
    while (next < first + count) {
      const random = createRandom((Math.imul(++next, 0x9e3779b1) ^ seed) >>> 0);
      if (next % 2 === 0) await converse(ports.http, drawRequests(random), random);
      else await converse(ports.grpc, drawConversation(random), random);
    }
  };
  await Promise.all(Array.from({ length: width }, lane));
}

/** In up to two parts; then it is cut, half-closed, or left until the server ends it or some time has passed. */
async function converse(port: number, bytes: Buffer, random: Random): Promise<void> {
  const at = random.below(2) === 0 ? bytes.length : random.below(bytes.length + 1);
  const how = random.below(3);
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  socket.on("error", () => socket.destroy());
  socket.resume();
  socket.write(bytes.subarray(0, at));
  if (at < bytes.length) {
    await pause(socket, 1);
    socket.write(bytes.subarray(at));
  }
  if (how === 0) socket.end();
  await pause(socket, how === 1 ? 1 : LINGER_MS);
  socket.destroy();
  if (!socket.closed) await once(socket, "close");
}

/** Until the socket is closed, at most for this time. */
function pause(socket: Socket, ms: number): Promise<void> {
  if (socket.closed) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    socket.once("close", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
