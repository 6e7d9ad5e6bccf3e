/**
 * The shapes of calls that gRPC's own interoperability tests are made of, as calls of this server, by grpc-js. Each says what
 * must come of it; `mixCalls` makes many of them at once, chosen by a seed.
 */
import assert from "node:assert/strict";
import { type CallOptions, Client, type ClientDuplexStream, credentials, Metadata, status } from "@grpc/grpc-js";
import { decode, encode, identity } from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import type { Random } from "./random.ts";

const SERVICE = "/inference.GRPCInferenceService";
const DEADLINE_MS = 120_000;
const SHORT_DEADLINE_MS = 250;
const LARGE_VALUES = 271_828;
/** Whitespace, and characters of two and of four bytes in UTF-16. */
export const SPECIAL_TEXT = "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \u{1f608}\t\n";

export const SHAPE_MODELS: Readonly<Record<string, string>> = {
  "echo/config.pbtxt": `
    backend: "identity"
    input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
    instance_group [ { count: 4 kind: KIND_CPU } ]`,
  "repeat/config.pbtxt": `
    backend: "repeat"
    model_transaction_policy { decoupled: true }
    input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] },
            { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] optional: true },
            { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] optional: true } ]
    output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]`,
  // Takes requests in, and gives each up while it waits for others: more than come at once, or a batch would be full and run.
  "late/config.pbtxt": `
    backend: "identity"
    max_batch_size: 4096
    input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
    dynamic_batching {
      max_queue_delay_microseconds: 600000000
      default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 1000 }
    }
    instance_group [ { count: 1 kind: KIND_CPU } ]`,
  "sleeper/config.pbtxt": `
    backend: "identity"
    input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
    instance_group [ { count: 8 kind: KIND_CPU } ]
    parameters { key: "execute_delay_ms" value { string_value: "3000" } }`,
};

const LATE_INPUTS = [{ name: "INPUT0", datatype: "INT32", shape: [1, 1] }];

interface Failure {
  readonly code: number;
  readonly details: string;
}
type Duplex = ClientDuplexStream<Buffer, Buffer>;
type Shape = (client: Client) => Promise<void>;

const COMPRESSIONS = { deflate: 1, gzip: 2 } as const;

/** A client of its own connection. `encoding`: what its requests are compressed with. */
export function openShapeClient(port: number, encoding?: keyof typeof COMPRESSIONS): Client {
  const compression = encoding === undefined ? {} : { "grpc.default_compression_algorithm": COMPRESSIONS[encoding] };
  return new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    ...compression,
    "grpc.max_receive_message_length": -1,
    "grpc.use_local_subchannel_pool": 1,
  });
}

export const SHAPES: Readonly<Record<string, Shape>> = {
  "an empty unary call": async (client) => {
    const answer = await unary(client, "ServerLive", {});
    assert.equal(answer.live, true);
  },
  "a large unary call": async (client) => {
    const values = Int32Array.from({ length: LARGE_VALUES }, (_, i) => i * 7);
    const answer = await unary(client, "ModelInfer", echoRequest("echo", values));
    assert.deepEqual(answer.raw_output_contents[0], bytesOf(values));
  },
  "a stream without messages": async (client) => {
    const stream = open(client);
    stream.end();
    assert.deepEqual(await rest(stream), { messages: 0, code: status.OK });
  },
  "a stream of requests, answered together": async (client) => {
    const stream = open(client);
    for (let k = 0; k < 8; k++) stream.write(streamed(echoRequest("echo", Int32Array.of(k), `${k}`)));
    stream.end();
    assert.deepEqual(await rest(stream), { messages: 8, code: status.OK });
  },
  "a request that streams answers": async (client) => {
    const stream = open(client);
    stream.end(streamed(repeatRequest(20)));
    assert.deepEqual(await rest(stream), { messages: 20, code: status.OK });
  },
  "ping-pong": async (client) => {
    const stream = open(client);
    for (const size of [1, 8, 50_000, 16]) {
      const values = Int32Array.from({ length: size }, (_, i) => i);
      stream.write(streamed(echoRequest("echo", values)));
      const answer = decode("inference.ModelStreamInferResponse", await next(stream));
      assert.deepEqual(answer.infer_response.raw_output_contents[0], bytesOf(values));
    }
    stream.end();
    assert.deepEqual(await rest(stream), { messages: 0, code: status.OK });
  },
  "a stream that is cancelled once begun": async (client) => {
    const stream = open(client);
    stream.write(streamed(repeatRequest(1000, 50)));
    setTimeout(() => stream.cancel(), 5);
    assert.equal((await rest(stream)).code, status.CANCELLED);
  },
  "a stream that is cancelled after its first response": async (client) => {
    const stream = open(client);
    stream.write(streamed(repeatRequest(1000, 50)));
    await next(stream);
    stream.cancel();
    assert.equal((await rest(stream)).code, status.CANCELLED);
  },
  "a unary call that is cancelled": async (client) => {
    const failure = await failing(client, "ModelInfer", echoRequest("sleeper", Int32Array.of(1)), { cancelAfterMs: 5 });
    assert.equal(failure.code, status.CANCELLED);
  },
  "a deadline while the server sleeps": async (client) => {
    const deadline = Date.now() + SHORT_DEADLINE_MS;
    const failure = await failing(client, "ModelInfer", echoRequest("sleeper", Int32Array.of(1)), { deadline });
    assert.equal(failure.code, status.DEADLINE_EXCEEDED);
  },
  "a deadline of a stream while the server sleeps": async (client) => {
    const stream = open(client, new Metadata(), { deadline: Date.now() + SHORT_DEADLINE_MS });
    stream.write(streamed(repeatRequest(10, 5000)));
    assert.equal((await rest(stream)).code, status.DEADLINE_EXCEEDED);
  },
  "a status with a special message": async (client) => {
    const failure = await failing(client, "ModelInfer", echoRequest(SPECIAL_TEXT, Int32Array.of(1)));
    assert.equal(failure.code, status.NOT_FOUND);
    assert.equal(failure.details, `Request for unknown model: '${SPECIAL_TEXT}' is not found`);
  },
  "an error as a message of a stream": async (client) => {
    const stream = open(client);
    stream.end(streamed(echoRequest("nope", Int32Array.of(1))));
    assert.deepEqual(await rest(stream), { messages: 1, code: status.OK });
  },
  "an error as the status of a stream": async (client) => {
    const strict = new Metadata();
    strict.set("triton_grpc_error", "true");
    const stream = open(client, strict);
    stream.write(streamed({ ...echoRequest("late", Int32Array.of(1)), inputs: LATE_INPUTS }));
    assert.deepEqual(await rest(stream), { messages: 0, code: status.UNAVAILABLE });
  },
  "a method that does not exist": async (client) => {
    assert.equal((await failing(client, "Nope", {})).code, status.UNIMPLEMENTED);
  },
};

interface FailingOptions {
  readonly deadline?: number;
  readonly cancelAfterMs?: number;
}

// biome-ignore lint/suspicious/noExplicitAny: messages of any type, read by tests
function unary(client: Client, rpc: string, request: object): Promise<any> {
  const bytes = encode(`inference.${rpc}Request`, request);
  return new Promise((resolve, reject) => {
    const options = { deadline: Date.now() + DEADLINE_MS };
    client.makeUnaryRequest(`${SERVICE}/${rpc}`, identity, identity, bytes, options, (error, answer) => {
      if (error === null && answer !== undefined) resolve(decode(`inference.${rpc}Response`, answer));
      else reject(error ?? new Error("no answer"));
    });
  });
}

/** A call that must not succeed. */
function failing(client: Client, rpc: string, request: object, options: FailingOptions = {}): Promise<Failure> {
  const bytes = rpc === "Nope" ? Buffer.alloc(0) : encode(`inference.${rpc}Request`, request);
  const { deadline = Date.now() + DEADLINE_MS, cancelAfterMs } = options;
  return new Promise((resolve, reject) => {
    const call = client.makeUnaryRequest(`${SERVICE}/${rpc}`, identity, identity, bytes, { deadline }, (error) => {
      if (error === null) reject(new Error(`${rpc} succeeded`));
      else resolve(error);
    });
    if (cancelAfterMs !== undefined) setTimeout(() => call.cancel(), cancelAfterMs);
  });
}

function open(client: Client, metadata: Metadata = new Metadata(), options: CallOptions = {}): Duplex {
  const withDeadline = { deadline: Date.now() + DEADLINE_MS, ...options };
  const path = `${SERVICE}/ModelStreamInfer`;
  const stream = client.makeBidiStreamRequest(path, identity, identity, metadata, withDeadline);
  // Its code comes with the status as well.
  stream.on("error", () => undefined);
  return stream;
}

function next(stream: Duplex): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    stream.once("data", (message: Buffer) => {
      stream.pause();
      resolve(message);
    });
    stream.once("status", ({ code, details }: Failure) => reject(new Error(`ended with ${code}: ${details}`)));
    stream.resume();
  });
}

/** Reads to the end. */
function rest(stream: Duplex): Promise<{ messages: number; code: number }> {
  return new Promise((resolve) => {
    let messages = 0;
    stream.on("data", () => {
      messages += 1;
    });
    stream.on("status", ({ code }: Failure) => resolve({ messages, code }));
    stream.resume();
  });
}

function echoRequest(model: string, values: Int32Array, id = ""): object {
  const inputs = [{ name: "INPUT0", datatype: "INT32", shape: [values.length] }];
  return { model_name: model, id, inputs, raw_input_contents: [bytesOf(values)] };
}

/** `count` answers, each after `delayMs`. */
function repeatRequest(count: number, delayMs = 0): object {
  const inputs = ["IN", "DELAY"].map((name, i) => ({ name, datatype: ["INT32", "UINT32"][i], shape: [count] }));
  const contents = [new Int32Array(count).fill(3), new Int32Array(count).fill(delayMs)].map(bytesOf);
  inputs.push({ name: "WAIT", datatype: "UINT32", shape: [1] });
  return { model_name: "repeat", inputs, raw_input_contents: [...contents, bytesOf(Int32Array.of(0))] };
}

function streamed(request: object): Buffer {
  return encode("inference.ModelInferRequest", request);
}

function bytesOf(values: Int32Array): Buffer {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
}

export interface MixOptions {
  readonly port: number;
  readonly random: Random;
  readonly numCalls: number;
  /** Calls at a time. */
  readonly width: number;
  /** Connections at a time; one in a thousand calls closes one and opens another. */
  readonly numConnections: number;
  /** Ends a run early, for runs that must end in time. */
  readonly goesOn?: () => boolean;
}

const RECONNECT_SHARE = 0.001;
/** Calls that wait for a deadline, or carry a megabyte, are rarer than the others. */
const SLOW_SHAPES: ReadonlySet<string> = new Set(Object.keys(SHAPES).filter((name) => /deadline|large/.test(name)));
const SLOW_SHARE = 0.02;

/** Calls of each shape that were made and went as they must. @throws the first that did not */
export async function mixCalls(options: MixOptions): Promise<Map<string, number>> {
  const { random, numCalls, width, goesOn = () => true } = options;
  const quick = Object.keys(SHAPES).filter((name) => !SLOW_SHAPES.has(name));
  const clients = new ClientPool(options);
  const counts = new Map<string, number>();
  let started = 0;
  const lane = async (): Promise<void> => {
    while (started < numCalls && goesOn()) {
      started += 1;
      const name = random.pick(random.next() < SLOW_SHARE ? [...SLOW_SHAPES] : quick);
      await clients
        .use((client) => SHAPES[name]?.(client))
        .catch((cause: unknown) => {
          throw new Error(`${name}, call ${started}: ${String(cause)}`, { cause });
        });
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: width }, lane));
  clients.close();
  return counts;
}

interface Pooled {
  readonly client: Client;
  numCalls: number;
}

/** Clients to choose from; now and then one is put aside for a new one, and closes when its last call has ended. */
class ClientPool {
  readonly #options: MixOptions;
  readonly #pooled: Pooled[];

  constructor(options: MixOptions) {
    this.#options = options;
    this.#pooled = Array.from({ length: options.numConnections }, () => this.#connect());
  }

  #connect(): Pooled {
    const { port, random } = this.#options;
    const encoding = random.pick(["none", "none", "gzip", "deflate"] as const);
    return { client: openShapeClient(port, encoding === "none" ? undefined : encoding), numCalls: 0 };
  }

  async use(run: (client: Client) => Promise<void> | undefined): Promise<void> {
    const { random } = this.#options;
    const place = random.below(this.#pooled.length);
    if (random.next() < RECONNECT_SHARE) {
      const [old] = this.#pooled.splice(place, 1, this.#connect());
      if (old?.numCalls === 0) old.client.close();
    }
    const pooled = this.#pooled[place] as Pooled; // there is one in each place
    pooled.numCalls += 1;
    await run(pooled.client);
    pooled.numCalls -= 1;
    if (pooled.numCalls === 0 && !this.#pooled.includes(pooled)) pooled.client.close();
  }

  close(): void {
    for (const { client } of this.#pooled) client.close();
  }
}
