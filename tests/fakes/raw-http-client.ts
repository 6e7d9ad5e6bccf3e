/** A client of HTTP/1.1 on a bare socket, for tests that care about bytes, order and connections. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface Answer {
  readonly status: string;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

export class RawHttpClient {
  readonly socket: Socket;
  #received: Buffer = Buffer.alloc(0);

  constructor(port: number) {
    this.socket = connect(port, "127.0.0.1");
    this.socket.on("data", (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
    });
    // A test that cares listens itself.
    this.socket.on("error", () => undefined);
  }

  send(method: string, path: string, body: Buffer | string = "", headers: Record<string, string> = {}): void {
    const bytes = Buffer.from(body);
    const all = { Host: "x", "Content-Length": String(bytes.length), ...headers };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
    this.socket.write(Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`), bytes]));
  }

  /** The bytes received so far, once they satisfy `isEnough`. */
  async received(isEnough: (bytes: Buffer) => boolean): Promise<Buffer> {
    while (!isEnough(this.#received)) await once(this.socket, "data");
    return this.#received;
  }

  async answer(): Promise<Answer> {
    const bytes = await this.received((all) => bodyEnd(all) <= all.length);
    const end = bodyEnd(bytes);
    this.#received = bytes.subarray(end);
    const headEnd = bytes.indexOf("\r\n\r\n");
    const [status = "", ...lines] = bytes.subarray(0, headEnd).toString().split("\r\n");
    const headers = lines.map((line) => line.split(": ", 2)).map(([k = "", v = ""]) => [k.toLowerCase(), v] as const);
    return { status: status.slice(9), headers: new Map(headers), body: bytes.subarray(headEnd + 4, end) };
  }
}

/** Infinity while the head or the length is not known. */
function bodyEnd(bytes: Buffer): number {
  const headEnd = bytes.indexOf("\r\n\r\n");
  const length = /content-length: (\d+)/i.exec(bytes.subarray(0, Math.max(headEnd, 0)).toString())?.[1];
  return headEnd < 0 || length === undefined ? Number.POSITIVE_INFINITY : headEnd + 4 + Number(length);
}
