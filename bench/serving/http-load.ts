/**
 * Load for HTTP/1.1 over plain sockets: each client writes the same bytes again as soon as the answer is whole. All answers
 * to one request have the same length, so only the first is parsed. Knows nothing of what is in a body.
 */
import { connect, type Socket } from "node:net";
import { LOCAL_HOST, type Load, Tally } from "./load.ts";

export interface HttpRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

const OK = "HTTP/1.1 200";

export function startHttpLoad(port: number, request: HttpRequest, numClients: number, host: string = LOCAL_HOST): Load {
  const tally = new Tally();
  const bytes = requestBytes(request, `${host}:${port}`);
  const sockets = Array.from({ length: numClients }, () => startClient({ port, host }, bytes, tally));
  return {
    tally,
    stop: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
}

function requestBytes({ method, path, headers, body }: HttpRequest, authority: string): Buffer {
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${authority}`];
  for (const [name, value] of headers) lines.push(`${name}: ${value}`);
  if (method === "POST") lines.push(`Content-Length: ${body.length}`);
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`), body]);
}

function startClient(address: { readonly port: number; readonly host: string }, bytes: Buffer, tally: Tally): Socket {
  const socket = connect({ ...address, noDelay: true });
  let answerBytes = 0;
  let received = 0;
  let head = Buffer.alloc(0);
  let startMs = 0;
  const send = (): void => {
    received = 0;
    startMs = performance.now();
    socket.write(bytes);
  };
  socket.on("connect", send);
  socket.on("error", (error) => tally.failed(error));
  socket.on("data", (chunk: Buffer) => {
    received += chunk.length;
    if (answerBytes === 0) {
      head = Buffer.concat([head, chunk]);
      answerBytes = answerLength(head);
    } else if (received === chunk.length && chunk.toString("latin1", 0, OK.length) !== OK) {
      tally.failed(new Error(`expected "${OK}", got: ${chunk.toString("latin1", 0, 500)}`));
    }
    if (answerBytes === 0 || received < answerBytes) return;
    tally.answered(startMs);
    send();
  });
  return socket;
}

/**
 * Bytes of head and body together; 0 while the head is not whole. Binary answers have an Inference-Header-Content-Length too.
 * @throws Error for an answer that has failed or tells no length
 */
export function answerLength(bytes: Buffer): number {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd < 0) return 0;
  const head = bytes.toString("latin1", 0, headEnd);
  const length = /^content-length: *(\d+)/im.exec(head)?.[1];
  if (!head.startsWith(OK) || length === undefined)
    throw new Error(`no answer to measure: ${bytes.toString("latin1", 0, 800)}`);
  return headEnd + 4 + Number(length);
}
