/**
 * HTTP over connections that stay open, for Node, Deno and Bun (Node.js, "http.Agent"). Sends tensors from where they
 * lie: fetch would copy them into one body first. Knows TLS and unix sockets, and no protocol on top. Source: RFC
 * 9110; https://nodejs.org/api/http.html#class-httpagent.
 */
import { Agent, type IncomingMessage, request as requestPlain } from "node:http";
import { request as requestTls, Agent as TlsAgent } from "node:https";
import type { Readable } from "node:stream";
import { createGunzip, createInflate } from "node:zlib";
import { type ExchangeRequest, type ExchangeResponse, joinPieces, sizeOf } from "../http/exchange.ts";

export interface TlsOptions {
  /** Certificates of the authorities, in PEM. Default: those of the platform. */
  readonly ca?: string | undefined;
  /** Certificate and key of the client, in PEM. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** Whether the server's certificate is checked. Default: true. */
  readonly rejectUnauthorized?: boolean | undefined;
}

export interface PoolOptions {
  /** Connections at once; further calls wait. Default: no limit. */
  readonly maxConnections?: number | undefined;
  /** Connections that stay open without a call. Default: 256. */
  readonly maxIdleConnections?: number | undefined;
  /** A connection is closed when nothing comes over it for so long. Default: never. */
  readonly idleTimeoutMs?: number | undefined;
  /** Unix socket in place of the host and port of the address. */
  readonly socketPath?: string | undefined;
  readonly tls?: TlsOptions | undefined;
}

/** Bodies up to this are cheaper to copy into one write than to write in parts. */
const JOINED_BYTES = 65_536;

export class HttpPool {
  readonly #agent: Agent;
  readonly #isTls: boolean;
  readonly #socketPath: string | undefined;

  constructor(isTls: boolean, options: PoolOptions = {}) {
    const { maxConnections, maxIdleConnections = 256, idleTimeoutMs, tls = {} } = options;
    const agentOptions = {
      keepAlive: true,
      maxFreeSockets: maxIdleConnections,
      ...(maxConnections === undefined ? {} : { maxSockets: maxConnections }),
      ...(idleTimeoutMs === undefined ? {} : { timeout: idleTimeoutMs }),
    };
    this.#agent = isTls ? new TlsAgent({ ...agentOptions, ...tls }) : new Agent(agentOptions);
    this.#isTls = isTls;
    this.#socketPath = options.socketPath;
  }

  /** An `Exchange`; as a property, so that it can be handed on. */
  readonly exchange = ({ method, url, headers, pieces, signal }: ExchangeRequest): Promise<ExchangeResponse> => {
    const body = pieces.length > 1 && sizeOf(pieces) <= JOINED_BYTES ? [joinPieces(pieces)] : pieces;
    return new Promise((resolve, reject) => {
      const send = this.#isTls ? requestTls : requestPlain;
      const request = send(url, {
        method,
        agent: this.#agent,
        headers: { ...headers, ...(method === "GET" ? {} : { "content-length": sizeOf(body) }) },
        ...(this.#socketPath === undefined ? {} : { socketPath: this.#socketPath }),
      });
      // Not by the option `signal`: in Deno it ends no request that waits for its response.
      const abort = (): void => {
        reject(signal?.reason);
        request.destroy();
      };
      signal?.addEventListener("abort", abort, { once: true });
      request.once("close", () => signal?.removeEventListener("abort", abort));
      request.on("response", (message) => resolve(new PoolResponse(message, signal)));
      request.on("error", reject);
      if (signal?.aborted === true) {
        abort();
        return;
      }
      request.cork();
      for (const piece of body) request.write(piece);
      request.end();
      request.uncork();
    });
  };

  /** Closes all connections; calls under way fail. */
  close(): void {
    this.#agent.destroy();
  }
}

class PoolResponse implements ExchangeResponse {
  readonly #message: IncomingMessage;
  readonly #signal: AbortSignal | undefined;

  constructor(message: IncomingMessage, signal: AbortSignal | undefined) {
    this.#message = message;
    this.#signal = signal;
  }

  get status(): number {
    return this.#message.statusCode ?? 0;
  }

  get statusText(): string {
    return this.#message.statusMessage ?? "";
  }

  header(name: string): string | null {
    const value = this.#message.headers[name];
    return (Array.isArray(value) ? value[0] : value) ?? null;
  }

  bytes(maxBytes: number, alignedAt?: number): Promise<Uint8Array | undefined> {
    const body = this.#decoded();
    return new Promise((resolve, reject) => {
      const chunks: Uint8Array[] = [];
      let size = 0;
      body.on("data", ({ buffer, byteOffset, length }: Buffer) => {
        size += length;
        chunks.push(new Uint8Array(buffer, byteOffset, length));
        if (size <= maxBytes) return;
        this.#message.destroy();
        resolve(undefined);
      });
      body.on("end", () => resolve(joinPieces(chunks, alignedAt)));
      body.on("error", reject);
      body.on("close", () => reject(this.#signal?.reason ?? new Error("the connection broke within the response")));
    });
  }

  async *chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield* this.#decoded();
    } finally {
      this.#message.destroy();
    }
  }

  /** An empty body frees the connection for the next call; a longer one ends with its connection. */
  async cancel(): Promise<void> {
    this.#message.resume();
  }

  /** RFC 9110, 8.4. Other encodings are never asked for. */
  #decoded(): Readable {
    const encoding = this.header("content-encoding");
    if (encoding !== "gzip" && encoding !== "deflate") return this.#message;
    const inflate = encoding === "gzip" ? createGunzip() : createInflate();
    this.#message.on("error", (error) => inflate.destroy(error));
    return this.#message.pipe(inflate);
  }
}
