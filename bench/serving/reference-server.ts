/**
 * What Node's own servers cost for the same bytes: `node --import tsx reference-server.ts http|grpc-js|http2 PORT` echoes
 * bodies or messages and prints its port when it listens. A child process of the benchmark.
 */
import { createServer } from "node:http";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import process from "node:process";
import { Server, ServerCredentials } from "@grpc/grpc-js";

const HOST = "127.0.0.1";
/** The same window as the server that is compared, else large messages wait for round trips. */
const WINDOW_BYTES: number = 1024 * 1024;
const MAX_MESSAGE_BYTES = 67_108_864;

const kind = process.argv[2];
const port = Number(process.argv[3]);
if (kind === "http") serveHttp();
else if (kind === "grpc-js") serveGrpcJs();
else if (kind === "http2") serveHttp2();
else throw new Error(`expected "http", "grpc-js" or "http2", got "${kind}"`);

function serveHttp(): void {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    response.sendDate = false;
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
      response.writeHead(200, ["Content-Type", "application/json", "Content-Length", String(body.length)]);
      response.end(body);
    });
  });
  server.listen(port, HOST, announce);
}

function serveGrpcJs(): void {
  const server = new Server({
    "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
    "grpc-node.flow_control_window": WINDOW_BYTES,
  });
  const asBytes = (value: Buffer): Buffer => value;
  const method = (name: string, isStream: boolean): object => ({
    path: `/inference.GRPCInferenceService/${name}`,
    requestStream: isStream,
    responseStream: isStream,
    requestSerialize: asBytes,
    requestDeserialize: asBytes,
    responseSerialize: asBytes,
    responseDeserialize: asBytes,
  });
  const service = { ModelInfer: method("ModelInfer", false), ModelStreamInfer: method("ModelStreamInfer", true) };
  server.addService(service as Parameters<Server["addService"]>[0], {
    ModelInfer: (call: { request: Buffer }, done: (error: null, reply: Buffer) => void) => done(null, call.request),
    ModelStreamInfer: (call: NodeJS.ReadWriteStream) => {
      call.on("data", (message: Buffer) => call.write(message));
      call.on("end", () => call.end());
    },
  });
  server.bindAsync(`${HOST}:${port}`, ServerCredentials.createInsecure(), (error) => {
    if (error !== null) throw error;
    announce();
  });
}

/** The least that node:http2 takes for a unary call. */
function serveHttp2(): void {
  const server = createHttp2Server({ settings: { initialWindowSize: WINDOW_BYTES } });
  server.on("stream", (stream: ServerHttp2Stream) => {
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => {
      stream.respond({ "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
    });
  });
  server.on("session", (session) => session.setLocalWindowSize(16 * WINDOW_BYTES));
  server.listen(port, HOST, announce);
}

function announce(): void {
  process.stdout.write(`${port}\n`);
}
