/**
 * PostgreSQL for tests without an installation: PGlite with pgvector behind the wire protocol (PostgreSQL manual, "Message
 * Formats"). All connections share one session, so each series of messages up to its Sync runs alone.
 */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { PGlite } from "@electric-sql/pglite";
import { vector } from "@electric-sql/pglite-pgvector";

const TLS_REQUEST = 80_877_103;
const TLS_REQUEST_BYTES = 8;
const LENGTH_BYTES = 4;
/** A start message (its length begins with 0), Sync and Query. */
const ENDS_SERIES: ReadonlySet<number | undefined> = new Set([0, 0x53, 0x51]);
const TERMINATE = 0x58;

export interface PostgresWireServer extends AsyncDisposable {
  readonly port: number;
}

export async function startPostgresWireServer(): Promise<PostgresWireServer> {
  const database = await PGlite.create({ extensions: { vector } });
  const server = createServer((socket) => serve(socket, database));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  return {
    port: typeof address === "object" ? (address?.port ?? 0) : 0,
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, "close");
      await database.close();
    },
  };
}

/** Messages of one connection. */
class MessageReader {
  #rest: Buffer = Buffer.alloc(0);
  #isStarted = false;

  /** The messages that are complete now; a request for TLS among them stands alone. */
  read(piece: Buffer): Buffer[] {
    this.#rest = Buffer.concat([this.#rest, piece]);
    const messages: Buffer[] = [];
    for (let message = this.#next(); message !== undefined; message = this.#next()) messages.push(message);
    return messages;
  }

  /** A start message has no type before its length. */
  #next(): Buffer | undefined {
    const at = this.#isStarted ? 1 : 0;
    if (this.#rest.length < at + LENGTH_BYTES) return undefined;
    const numBytes = at + this.#rest.readInt32BE(at);
    if (this.#rest.length < numBytes) return undefined;
    const message = this.#rest.subarray(0, numBytes);
    this.#rest = this.#rest.subarray(numBytes);
    if (!isTlsRequest(message)) this.#isStarted = true;
    return message;
  }
}

function serve(socket: Socket, database: PGlite): void {
  const reader = new MessageReader();
  let series: Buffer[] = [];
  const run = async (messages: Buffer): Promise<void> => {
    const answer = await database.runExclusive(() => database.execProtocolRaw(messages));
    if (!socket.destroyed) socket.write(answer);
  };
  const take = (message: Buffer): void => {
    if (isTlsRequest(message)) socket.write("N");
    else if (message[0] === TERMINATE) socket.end();
    else {
      series.push(message);
      if (!ENDS_SERIES.has(message[0])) return;
      void run(Buffer.concat(series));
      series = [];
    }
  };
  socket.on("error", () => socket.destroy());
  socket.on("data", (piece: Buffer) => reader.read(piece).forEach(take));
}

function isTlsRequest(message: Buffer): boolean {
  return message.length === TLS_REQUEST_BYTES && message.readInt32BE(LENGTH_BYTES) === TLS_REQUEST;
}
