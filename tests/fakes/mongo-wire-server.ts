/**
 * A small server of MongoDB's wire protocol for tests: what the official driver needs to connect, find by id, write and look
 * vectors up, over collections in memory. It is no database: it knows the commands that our stores send, and refuses all others.
 */
import { createServer, type Server, type Socket } from "node:net";
import { BSON } from "mongodb";

type Document = Record<string, unknown>;

const OP_REPLY = 1;
const OP_QUERY = 2004;
const OP_MSG = 2013;
const HEADER_BYTES = 16;

export interface MongoWireServer extends AsyncDisposable {
  readonly url: string;
  /** Commands that came, by name, without greetings. */
  readonly commands: readonly string[];
  /** Cuts all connections and refuses new ones, until `resume`. */
  pause(): Promise<void>;
  resume(): Promise<void>;
}

export async function startMongoWireServer({ hasSearch }: { readonly hasSearch: boolean }): Promise<MongoWireServer> {
  const collections = new Map<string, Map<string, Document>>();
  const commands: string[] = [];
  const sockets = new Set<Socket>();
  const run = (command: Document): Document => runCommand(command, collections, commands, hasSearch);
  const listen = (port: number): Promise<Server> => {
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      socket.on("error", () => socket.destroy());
      serve(socket, run);
    });
    return new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve(server)));
  };
  let server = await listen(0);
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const pause = async (): Promise<void> => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return {
    url: `mongodb://127.0.0.1:${port}/shop?directConnection=true`,
    commands,
    pause,
    async resume() {
      server = await listen(port);
    },
    [Symbol.asyncDispose]: pause,
  };
}

function serve(socket: Socket, run: (command: Document) => Document): void {
  let rest = Buffer.alloc(0);
  socket.on("data", (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= HEADER_BYTES && rest.length >= rest.readInt32LE(0)) {
      const message = rest.subarray(0, rest.readInt32LE(0));
      rest = rest.subarray(message.length);
      socket.write(answer(message, run));
    }
  });
}

function answer(message: Buffer, run: (command: Document) => Document): Buffer {
  const id = message.readInt32LE(4);
  if (message.readInt32LE(12) === OP_QUERY) {
    const nameEnd = message.indexOf(0, HEADER_BYTES + 4);
    const body = BSON.serialize(run(BSON.deserialize(message.subarray(nameEnd + 9))));
    const head = Buffer.alloc(20);
    head.writeInt32LE(8, 0);
    head.writeInt32LE(1, 16);
    return framed(OP_REPLY, id, Buffer.concat([head, body]));
  }
  const body = BSON.serialize(run(readMessage(message)));
  return framed(OP_MSG, id, Buffer.concat([Buffer.alloc(5), body]));
}

/** The body, with the documents of the sequences that stand beside it. */
function readMessage(message: Buffer): Document {
  let command: Document = {};
  const sequences: Document = {};
  for (let at = HEADER_BYTES + 4; at < message.length; ) {
    const kind = message[at];
    const size = message.readInt32LE(at + 1);
    if (kind === 0) command = BSON.deserialize(message.subarray(at + 1, at + 1 + size));
    else {
      const nameEnd = message.indexOf(0, at + 5);
      const documents: Document[] = [];
      for (let item = nameEnd + 1; item < at + 1 + size; item += message.readInt32LE(item)) {
        documents.push(BSON.deserialize(message.subarray(item, item + message.readInt32LE(item))));
      }
      sequences[message.toString("utf8", at + 5, nameEnd)] = documents;
    }
    at += 1 + size;
  }
  return { ...command, ...sequences };
}

function framed(opcode: number, to: number, body: Uint8Array): Buffer {
  const head = Buffer.alloc(HEADER_BYTES);
  head.writeInt32LE(HEADER_BYTES + body.length, 0);
  head.writeInt32LE(to, 8);
  head.writeInt32LE(opcode, 12);
  return Buffer.concat([head, body]);
}

function runCommand(
  command: Document,
  collections: Map<string, Map<string, Document>>,
  commands: string[],
  hasSearch: boolean,
): Document {
  const name = Object.keys(command)[0] ?? "";
  if (/^(?:hello|ismaster)$/i.test(name)) return greeting();
  commands.push(name);
  const target = `${String(command.$db)}.${String(command[name])}`;
  const rows = collections.get(target) ?? new Map<string, Document>();
  collections.set(target, rows);
  const cursor = (firstBatch: readonly Document[]): Document => ({
    cursor: { id: BSON.Long.ZERO, ns: target, firstBatch },
    ok: 1,
  });
  switch (name) {
    case "ping":
    case "endSessions":
      return { ok: 1 };
    case "createSearchIndexes":
      return { indexesCreated: [{ id: "1", name: "vectors" }], ok: 1 };
    case "find": {
      const { _id } = command.filter as { _id: { $in: string[] } };
      return cursor(_id.$in.flatMap((id) => [rows.get(id)].filter((row) => row !== undefined)));
    }
    case "update": {
      const updates = command.updates as { q: { _id: string }; u: { $set: Document } }[];
      for (const { q, u } of updates) rows.set(q._id, { ...rows.get(q._id), _id: q._id, ...u.$set });
      return { n: updates.length, nModified: updates.length, ok: 1 };
    }
    case "aggregate": {
      const [stage] = command.pipeline as { $vectorSearch?: { queryVector: number[]; limit: number } }[];
      const search = stage?.$vectorSearch;
      if (search === undefined || !hasSearch)
        return failure(40_324, "Unrecognized pipeline stage name: '$vectorSearch'");
      return cursor(nearestRows([...rows.values()], search));
    }
    default:
      return failure(59, `no such command: '${name}'`);
  }
}

/** Scores as the real thing gives them for cosine: from 0 to 1. */
function nearestRows(rows: readonly Document[], search: { queryVector: number[]; limit: number }): Document[] {
  const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0);
  const scored = rows.map((row) => {
    const vector = row.embedding as number[];
    const cosine =
      dot(vector, search.queryVector) / Math.sqrt(dot(vector, vector) * dot(search.queryVector, search.queryVector));
    return { _id: row._id, document: row.document, score: (1 + cosine) / 2 };
  });
  return scored.sort((a, b) => b.score - a.score).slice(0, search.limit);
}

function greeting(): Document {
  return {
    ...{ ismaster: true, isWritablePrimary: true, helloOk: true, ok: 1, readOnly: false },
    ...{ maxBsonObjectSize: 16_777_216, maxMessageSizeBytes: 48_000_000, maxWriteBatchSize: 100_000 },
    ...{ minWireVersion: 0, maxWireVersion: 21, localTime: new Date(), logicalSessionTimeoutMinutes: 30 },
  };
}

function failure(code: number, errmsg: string): Document {
  return { ok: 0, code, errmsg, codeName: "Failed" };
}
