/** A front end on a free port and the peers that the tests call it with: grpc-js for the rules, node:http2 for what breaks them. */
import { type ClientHttp2Session, connect, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http2";
import { Client, credentials, type Metadata, type ServiceError } from "@grpc/grpc-js";
import { schema } from "@nereid/wire";
import protobuf from "protobufjs/light.js";
import type { Logger } from "../../observe/log.ts";
import type { LoadReports } from "../load-report-text.ts";
import { FakeModelServer } from "./fake-model-server.test-support.ts";
import { createGrpcFrontend, type GrpcFrontend } from "./frontend.ts";
import { DEFAULT_GRPC_KEEPALIVE, type GrpcOptions } from "./options.ts";

const root = protobuf.Root.fromJSON(schema as protobuf.INamespace);

export const GRPC_TEST_OPTIONS: GrpcOptions = {
  address: "127.0.0.1",
  port: 0,
  restricted: [],
  forwardPattern: undefined,
  inferCompressionLevel: "none",
  tls: undefined,
  keepalive: DEFAULT_GRPC_KEEPALIVE,
  maxMessageBytes: 2 ** 31 - 1,
};

export class TestLog implements Logger {
  readonly errors: string[] = [];
  /** Verbose lines. */
  readonly lines: string[] = [];
  info(): void {
    this.errors.length += 0;
  }
  warn(): void {
    this.errors.length += 0;
  }
  error(_location: string, message: string): void {
    this.errors.push(message);
  }
  verbose(level: number, location: string, message: string | (() => string)): void {
    this.lines.push(`${level} ${location}: ${typeof message === "string" ? message : message()}`);
  }
  table(): void {
    this.errors.length += 0;
  }
}

export interface TestBed {
  readonly server: FakeModelServer;
  readonly frontend: GrpcFrontend;
  readonly log: TestLog;
  readonly port: number;
  readonly client: Client;
  close(): Promise<void>;
}

export async function openTestBed(changes: Partial<GrpcOptions> = {}, load?: LoadReports): Promise<TestBed> {
  const server = new FakeModelServer();
  const log = new TestLog();
  const parts = { server, options: { ...GRPC_TEST_OPTIONS, ...changes }, log };
  const frontend = createGrpcFrontend(load === undefined ? parts : { ...parts, load });
  const { port } = await frontend.listen();
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  const close = async (): Promise<void> => {
    client.close();
    await frontend.close();
  };
  return { server, frontend, log, port, client, close };
}

export function encode(type: string, value: object): Buffer {
  const found = root.lookupType(type);
  return Buffer.from(found.encode(found.fromObject(value)).finish());
}

// biome-ignore lint/suspicious/noExplicitAny: messages of any type, read by tests
export function decode(type: string, bytes: Uint8Array): any {
  const found = root.lookupType(type);
  return found.toObject(found.decode(bytes), {
    longs: Number,
    enums: String,
    oneofs: true,
    defaults: true,
  });
}

export const identity = (bytes: Buffer): Buffer => bytes;

/** One unary call of the inference service. @throws ServiceError */
export function callUnary(
  client: Client,
  rpc: string,
  request: object,
  options: { readonly metadata?: Metadata; readonly deadline?: number } = {},
  // biome-ignore lint/suspicious/noExplicitAny: as in decode
): Promise<any> {
  const [service, name] = rpc.includes("/") ? rpc.split("/") : ["inference.GRPCInferenceService", rpc];
  const [requestType, responseType] = rpc.includes("/")
    ? ["grpc.health.v1.HealthCheckRequest", "grpc.health.v1.HealthCheckResponse"]
    : [`inference.${name}Request`, `inference.${name}Response`];
  return new Promise((resolve, reject) => {
    const done = (error: ServiceError | null, bytes?: Buffer): void => {
      if (error !== null) reject(error);
      else resolve(decode(responseType ?? "", bytes ?? Buffer.alloc(0)));
    };
    const bytes = encode(requestType ?? "", request);
    const { metadata, deadline } = options;
    const callOptions = deadline === undefined ? {} : { deadline };
    if (metadata === undefined)
      client.makeUnaryRequest(`/${service}/${name}`, identity, identity, bytes, callOptions, done);
    else client.makeUnaryRequest(`/${service}/${name}`, identity, identity, bytes, metadata, callOptions, done);
  });
}

export interface RawAnswer {
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly rstCode: number;
}

export const MODEL_INFER = "/inference.GRPCInferenceService/ModelInfer";
export const STREAM_INFER = "/inference.GRPCInferenceService/ModelStreamInfer";

/** Sends bytes as they are. `end: false` leaves the request open. */
export function rawCall(
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders,
  body: Uint8Array,
  end = true,
): Promise<RawAnswer> {
  const stream = session.request({
    ":method": "POST",
    ":path": MODEL_INFER,
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });
  if (end) stream.end(body);
  else stream.write(body);
  return new Promise((resolve, reject) => {
    let first: IncomingHttpHeaders = {};
    let trailers: IncomingHttpHeaders = {};
    const chunks: Buffer[] = [];
    stream.on("response", (received) => {
      first = received;
    });
    stream.on("trailers", (received) => {
      trailers = received;
    });
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", reject);
    stream.on("close", () => {
      const status = first["grpc-status"] === undefined ? trailers : first;
      resolve({ headers: first, trailers: status, body: Buffer.concat(chunks), rstCode: stream.rstCode ?? 0 });
    });
  });
}

export function openSession(port: number): ClientHttp2Session {
  const session = connect(`http://127.0.0.1:${port}`);
  session.on("error", () => session.destroy());
  return session;
}

export function frame(message: Uint8Array, flag = 0, length: number = message.length): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = flag;
  prefix.writeUInt32BE(length, 1);
  return Buffer.concat([prefix, message]);
}

/** A request of the model `simple`, or of another with the same inputs. */
export function inferRequest(changes: object = {}): Record<string, unknown> {
  return {
    model_name: "simple",
    inputs: [
      { name: "INPUT0", datatype: "INT32", shape: [1, 2] },
      { name: "INPUT1", datatype: "INT32", shape: [1, 2] },
    ],
    raw_input_contents: [int32Bytes([1, 2]), int32Bytes([10, 20])],
    ...changes,
  };
}

export function int32Bytes(values: readonly number[]): Buffer {
  return Buffer.from(Int32Array.from(values).buffer);
}
