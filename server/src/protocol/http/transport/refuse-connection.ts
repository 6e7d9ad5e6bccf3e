/**
 * Ends a connection that sent something other than HTTP (RFC 9112, 2.2). The answer to an earlier request is sent
 * first; Node alone would replace it by the refusal. Knows no route.
 */
import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** By Node's code of the error; anything else is a bad request. */
const STATUS_LINES: ReadonlyMap<string, string> = new Map([
  ["HPE_HEADER_OVERFLOW", "431 Request Header Fields Too Large"],
  ["HPE_CHUNK_EXTENSIONS_OVERFLOW", "413 Payload Too Large"],
  ["ERR_HTTP_REQUEST_TIMEOUT", "408 Request Timeout"],
]);

/** A client that does not close its side would keep the descriptor for ever (RFC 9112, 9.6, lingering close). */
const LINGER_MS = 1000;

/** `last`: the response to the latest request of the connection, if there was one. */
export function refuseConnection(error: NodeJS.ErrnoException, socket: Duplex, last: ServerResponse | undefined): void {
  const refuse = (): void => {
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    socket.end(`HTTP/1.1 ${STATUS_LINES.get(error.code ?? "") ?? "400 Bad Request"}\r\nConnection: close\r\n\r\n`);
    setTimeout(() => socket.destroy(), LINGER_MS).unref();
  };
  // A request whose own body is broken will never be answered.
  if (last === undefined || last.destroyed || last.writableFinished || !last.req.complete) refuse();
  else last.once("close", refuse);
}
