/** Limits of gRPC, its protobuf messages and HTTP/2. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { decodeInferRequest, NameCache } from "@nereid/wire";
import { MAX_GRPC_MESSAGE_BYTES } from "../../server/src/core/limits.ts";
import { openTestBed } from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { FrameReader } from "../../server/src/protocol/grpc/transport/message-reader.ts";
import { FLAG, FRAME, HTTP2_ERROR, Http2Fault, PREFACE } from "../../server/src/protocol/http2/codes.ts";
import { Http2Connection } from "../../server/src/protocol/http2/connection.ts";
import { FloodGuard } from "../../server/src/protocol/http2/flood-guard.ts";
import { FrameParser } from "../../server/src/protocol/http2/frame-parser.ts";
import { uint32 } from "../../server/src/protocol/http2/frame-rules.ts";
import { HeaderBlocks } from "../../server/src/protocol/http2/header-blocks.ts";
import { HeaderDecoder } from "../../server/src/protocol/http2/header-decoder.ts";
import { ByteBuilder } from "../../wire/src/proto/byte-builder.ts";
import { type LimitRow, Refused } from "./limit-row.ts";

const ignore = (): void => undefined;
const CALM = `HTTP/2 ${HTTP2_ERROR.enhanceYourCalm}`;

function frame(type: number, flags: number, id: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  return Buffer.concat([uint32(payload.length).subarray(1), Buffer.from([type, flags]), uint32(id), payload]);
}

/** An integer of HPACK behind the bits of `first` (RFC 7541, 5.1). */
function integer(first: number, prefix: number, value: number): Buffer {
  const mask = 2 ** prefix - 1;
  if (value < mask) return Buffer.from([first | value]);
  const bytes = [first | mask];
  let rest = value - mask;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

/** A field without indexing. */
function field(name: string, value: string): Buffer {
  const text = (part: string): Buffer => Buffer.concat([integer(0, 7, part.length), Buffer.from(part)]);
  return Buffer.concat([Buffer.from([0]), text(name), text(value)]);
}

const CALL: readonly (readonly [string, string])[] = [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/inference.GRPCInferenceService/ModelInfer"],
  ["content-type", "application/grpc"],
];
const CALL_HEAD: Buffer = Buffer.concat(CALL.map(([name, value]) => field(name, value)));
const CALL_BYTES: number = CALL.reduce((sum, [name, value]) => sum + name.length + value.length + 32, 0);

/** Sends frames to a front end; throws the code of the first stream that it resets before it answers a ping. */
async function sendFrames(frames: readonly Buffer[]): Promise<void> {
  const bed = await openTestBed();
  const socket = connect(bed.port, "127.0.0.1");
  let received = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
  });
  socket.write(
    Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0), ...frames, frame(FRAME.ping, 0, 0, Buffer.alloc(8))]),
  );
  let found = resets(received);
  while (!found.isAnswered) {
    await once(socket, "data");
    found = resets(received);
  }
  socket.destroy();
  await bed.close();
  if (found.code !== undefined) throw new Refused(`HTTP/2 ${found.code}`);
}

function resets(bytes: Buffer): { readonly isAnswered: boolean; readonly code: number | undefined } {
  let code: number | undefined;
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    if (bytes[at + 3] === FRAME.reset) code ??= bytes.readUInt32BE(at + 9);
    if (bytes[at + 3] === FRAME.ping) return { isAnswered: true, code };
  }
  return { isAnswered: false, code };
}

function openStreams(count: number): Promise<void> {
  const head = (_: unknown, i: number): Buffer => frame(FRAME.headers, FLAG.endHeaders, 2 * i + 1, CALL_HEAD);
  return sendFrames(Array.from({ length: count }, head));
}

function sendMetadata(numBytes: number): Promise<void> {
  const fill = field("fill", "a".repeat(numBytes - CALL_BYTES - "fill".length - 32));
  return sendFrames([frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.concat([CALL_HEAD, fill]))]);
}

function announceMessage(numBytes: number): void {
  const reader = new FrameReader(MAX_GRPC_MESSAGE_BYTES);
  reader.push(Buffer.concat([Buffer.from([0]), uint32(numBytes)]));
  reader.next();
}

function refuseIf(isTooMuch: boolean): void {
  if (isTooMuch) throw new Refused(CALM);
}

function repeat(count: number, step: () => boolean): void {
  for (let i = 0; i < count; i++) refuseIf(step());
}

/** A burst, and so many a second later. */
function resetLater(count: number): void {
  const guard = new FloodGuard();
  repeat(2000, () => guard.reset(0));
  repeat(count, () => guard.reset(1000));
}

function startFrame(numBytes: number): void {
  const parser = new FrameParser({ dataStart: ignore, data: ignore, frame: ignore });
  parser.push(Buffer.concat([PREFACE, uint32(numBytes).subarray(1), Buffer.from([FRAME.data, 0]), uint32(1)]));
}

function continueBlock(numFrames: number): void {
  const blocks = new HeaderBlocks(1000);
  blocks.begin(1, 0, Buffer.alloc(0));
  for (let i = 1; i < numFrames; i++) blocks.add(1, 0, Buffer.alloc(0));
}

/** A string of that length, of which nothing follows: a length that is taken fails at the missing bytes. */
function announceString(length: number): void {
  try {
    new HeaderDecoder(1000).decode(Buffer.concat([Buffer.from([0]), integer(0, 7, length)]));
  } catch (error) {
    if (!(error instanceof Http2Fault && error.message.endsWith("a string is cut off"))) throw error;
  }
}

/** A client asks for an ack while so many bytes wait for it. */
async function askUnread(numBytes: number): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const accepted = once(server, "connection");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const [socket] = (await accepted) as [Socket];
  const limits = { maxStreams: 1, maxHeaderListBytes: 1000, streamWindowBytes: 1000, connectionWindowBytes: 65_535 };
  const fault = new Promise<Http2Fault | undefined>((resolve) => {
    new Http2Connection(socket, limits, { stream: ignore, pinged: ignore, goneAway: ignore, closed: resolve }).start();
  });
  await once(client, "data");
  Object.defineProperty(socket, "writableLength", { value: numBytes });
  client.write(Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0)]));
  await once(client, "data");
  client.destroy();
  socket.destroy();
  server.close();
  const found = await fault;
  if (found !== undefined) throw found;
}

function message(tag: number, count: number, entry: readonly number[]): Buffer {
  const one = Buffer.from([tag, entry.length, ...entry]);
  return Buffer.concat(Array.from({ length: count }, () => one));
}

/** One input with a packed shape of so many dimensions. */
function shapeOf(count: number): Buffer {
  const shape = Buffer.concat([Buffer.from([26]), varint(count), Buffer.alloc(count, 1)]);
  return Buffer.concat([Buffer.from([42]), varint(shape.length), shape]);
}

function varint(value: number): Buffer {
  return integer(0, 0, value).subarray(1);
}

const GROUP_START = (15 << 3) | 3;
const GROUP_END = (15 << 3) | 4;
const decode = (bytes: Buffer): unknown => decodeInferRequest(bytes, new NameCache());

function parameters(count: number): Buffer {
  return Buffer.concat(
    Array.from({ length: count }, (_, i) => {
      const key = Buffer.from(String(i));
      return Buffer.from([34, key.length + 2, 10, key.length, ...key]);
    }),
  );
}

export const GRPC_ROWS: readonly LimitRow[] = [
  { name: "MAX_GRPC_MESSAGE_BYTES", value: 2_147_483_647, run: announceMessage, status: "gRPC 8", says: "both" },
  {
    name: "MAX_GRPC_CONCURRENT_STREAMS",
    value: 1024,
    run: openStreams,
    status: `HTTP/2 ${HTTP2_ERROR.refusedStream}`,
    says: /^$/,
  },
  { name: "MAX_GRPC_HEADER_LIST_BYTES", value: 16_384, run: sendMetadata, status: CALM, says: /^$/ },
  {
    name: "MAX_REPEATED_MESSAGES",
    value: 65_536,
    run: (count) => decode(message(42, count, [])),
    status: "gRPC 13",
    says: "both",
  },
  {
    name: "MAX_REPEATED_MESSAGES",
    value: 65_536,
    run: (count) => decode(parameters(count)),
    status: "gRPC 13",
    says: "both",
  },
  { name: "MAX_DIMS", value: 4096, run: (count) => decode(shapeOf(count)), status: "gRPC 13", says: "both" },
  {
    name: "MAX_TENSOR_BYTES",
    value: 2_147_483_647,
    run: (count) => new ByteBuilder().reserve(count),
    status: "gRPC 13",
    says: "both",
  },
  {
    name: "MAX_GROUP_DEPTH",
    value: 100,
    run: (count) => decode(Buffer.concat([Buffer.alloc(count, GROUP_START), Buffer.alloc(count, GROUP_END)])),
    status: "gRPC 13",
    says: "both",
  },
  { name: "MAX_FRAME_BYTES", value: 262_144, run: startFrame, status: `HTTP/2 ${HTTP2_ERROR.frameSize}`, says: "both" },
  {
    name: "MAX_BLOCK_BYTES",
    value: 65_536,
    run: (count) => new HeaderBlocks(1000).begin(1, 0, Buffer.alloc(count)),
    status: CALM,
    says: "both",
  },
  { name: "MAX_BLOCK_FRAMES", value: 64, run: continueBlock, status: CALM, says: "both" },
  {
    name: "MAX_TABLE_BYTES",
    value: 4096,
    run: (count) => new HeaderDecoder(1000).decode(integer(0x20, 5, count)),
    status: `HTTP/2 ${HTTP2_ERROR.compression}`,
    says: "both",
  },
  {
    name: "MAX_HPACK_INTEGER",
    value: 268_435_456,
    run: announceString,
    status: `HTTP/2 ${HTTP2_ERROR.compression}`,
    says: "both",
  },
  {
    name: "MAX_RESET_BURST",
    value: 2000,
    run: (count) => {
      const guard = new FloodGuard();
      repeat(count, () => guard.reset(0));
    },
    status: CALM,
    says: /^$/,
  },
  { name: "MAX_RESETS_PER_SECOND", value: 200, run: resetLater, status: CALM, says: /^$/ },
  {
    name: "MAX_SMALL_WINDOWS",
    value: 1000,
    run: (count) => {
      const guard = new FloodGuard();
      repeat(count, () => guard.window(1));
    },
    status: CALM,
    says: /^$/,
  },
  {
    name: "MAX_EMPTY_FRAMES",
    value: 1000,
    run: (count) => {
      const guard = new FloodGuard();
      repeat(count, () => guard.empty());
    },
    status: CALM,
    says: /^$/,
  },
  {
    name: "MAX_CONTROL_PER_SECOND",
    value: 10_000,
    run: (count) => {
      const guard = new FloodGuard();
      repeat(count, () => guard.control(1));
    },
    status: CALM,
    says: /^$/,
  },
  { name: "MAX_UNREAD_BYTES", value: 4_194_304, run: askUnread, status: CALM, says: /does not read/ },
];
