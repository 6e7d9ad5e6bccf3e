/**
 * Load for HTTP/1.1 where each client has a script: requests that it sends one after the other and then again from the start. So
 * many of them count as one unit of work. Knows nothing of what is in a body.
 */
import { connect, type Socket } from "node:net";
import type { HttpRequest } from "../serving/http-load.ts";
import { type Load, Tally } from "../serving/load.ts";

const OK = "HTTP/1.1 200";
const HEAD_END = "\r\n\r\n";

export interface Script {
  readonly requests: readonly HttpRequest[];
  /** Requests that make a unit. */
  readonly unit: number;
}

export function startScriptLoad(port: number, scripts: readonly Script[]): Load {
  const tally = new Tally();
  const sockets = scripts.map((script) => startClient(port, script, tally));
  return {
    tally,
    stop: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
}

function startClient(port: number, { requests, unit }: Script, tally: Tally): Socket {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  const bytes = requests.map((request) => bytesOf(request, port));
  let at = 0;
  let sent = 0;
  let startMs = 0;
  let received: Buffer = Buffer.alloc(0);
  const send = (): void => {
    if (sent % unit === 0) startMs = performance.now();
    sent += 1;
    socket.write(bytes[at] as Buffer);
    at = (at + 1) % bytes.length;
  };
  socket.on("connect", send);
  socket.on("error", (error) => tally.failed(error));
  socket.on("data", (chunk: Buffer) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    if (!isWhole(received)) return;
    if (received.toString("latin1", 0, OK.length) !== OK) {
      tally.failed(new Error(`expected "${OK}", got: ${received.toString("latin1", 0, 500)}`));
      return;
    }
    received = received.subarray(received.length);
    if (sent % unit === 0) tally.answered(startMs);
    send();
  });
  return socket;
}

function bytesOf({ method, path, headers, body }: HttpRequest, port: number): Buffer {
  const lines = [`${method} ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`, `Content-Length: ${body.length}`];
  for (const [name, value] of headers) lines.push(`${name}: ${value}`);
  return Buffer.concat([Buffer.from(lines.join("\r\n") + HEAD_END), body]);
}

function isWhole(bytes: Buffer): boolean {
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd < 0) return false;
  const length = /content-length: *(\d+)/i.exec(bytes.toString("latin1", 0, headEnd))?.[1];
  return bytes.length >= headEnd + HEAD_END.length + Number(length ?? 0);
}
