/**
 * Node's own servers for the same bytes: `node --import tsx reference-server.ts http|grpc-js|http2 PORT` echoes bodies
 * or messages and prints its port when it listens. `grpc-js-infer` adds and subtracts as the model `simple` does, with
 * protobufjs for the messages. A child process of the benchmark.
 */
import { createServer } from "node:http";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import process from "node:process";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { schema } from "@nereid/wire";
import protobuf from "protobufjs/light.js";

const HOST = "127.0.0.1";
/** The same window as the server that is compared, else large messages wait for round trips. */
const WINDOW_BYTES: number = 1024 * 1024;
const MAX_MESSAGE_BYTES = 67_108_864;

const kind = process.argv[2];
const port = Number(process.argv[3]);
if (kind === "http") serveHttp();
else if (kind === "grpc-js") serveGrpcJs((message) => message);
else if (kind === "grpc-js-infer") serveGrpcJs(inferSimple());
else if (kind === "http2") serveHttp2();
else throw new Error(`expected "http", "grpc-js", "grpc-js-infer" or "http2", got "${kind}"`);

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

interface SimpleRequest {
  readonly raw_input_contents: readonly Buffer[];
}

/** The sums and differences of two vectors of 32-bit integers, as messages in and out. */
function inferSimple(): (message: Buffer) => Buffer {
  const root = protobuf.Root.fromJSON(schema as protobuf.INamespace);
  const request = root.lookupType("inference.ModelInferRequest");
  const response = root.lookupType("inference.ModelInferResponse");
  const shape = [1, 16];
  const outputs = ["OUTPUT0", "OUTPUT1"].map((name) => ({ name, datatype: "INT32", shape }));
  return (message) => {
    const { raw_input_contents: inputs } = request.decode(message) as unknown as SimpleRequest;
    const [left = Buffer.alloc(0), right = Buffer.alloc(0)] = inputs;
    const [sums, differences] = [Buffer.alloc(left.length), Buffer.alloc(left.length)];
    for (let at = 0; at < left.length; at += 4) {
      sums.writeInt32LE((left.readInt32LE(at) + right.readInt32LE(at)) | 0, at);
      differences.writeInt32LE((left.readInt32LE(at) - right.readInt32LE(at)) | 0, at);
    }
    const answer = { model_name: "simple", model_version: "1", outputs, raw_output_contents: [sums, differences] };
    return Buffer.from(response.encode(answer).finish());
  };
}

function serveGrpcJs(answer: (message: Buffer) => Buffer): void {
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
    ModelInfer: (call: { request: Buffer }, done: (error: null, reply: Buffer) => void) =>
      done(null, answer(call.request)),
    ModelStreamInfer: (call: NodeJS.ReadWriteStream) => {
      call.on("data", (message: Buffer) => call.write(answer(message)));
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
