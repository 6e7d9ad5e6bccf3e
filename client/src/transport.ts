/**
 * One HTTP call through fetch (https://fetch.spec.whatwg.org/): address, headers, a size limit of the response, and
 * errors of one class. Knows no path of the protocol.
 */
import { decodeUtf8 } from "@nereid/wire";
import { ClientError } from "./client-error.ts";
import { type CallOptions, Deadline } from "./deadline.ts";
import { EventStreamParser } from "./event-stream.ts";
import { isRecord, type JsonData, parseJson } from "./json-document.ts";

export type Fetch = typeof globalThis.fetch;

export interface TransportOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: Fetch;
  readonly maxResponseBytes: number;
}

export interface HttpCall {
  readonly method: "GET" | "POST";
  /** Path behind the server's address, percent-encoded. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array<ArrayBuffer>;
}

export interface HttpResponse {
  readonly bytes: Uint8Array;
  readonly headers: Headers;
}

/** Bytes read of an error's body: messages are short, pages of proxies are not. */
const MAX_ERROR_BYTES = 65_536;
const MAX_ERROR_CHARS = 1000;

export class Transport {
  readonly #options: TransportOptions;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  /** The status of the response. @throws ClientError */
  status(call: HttpCall, options: CallOptions): Promise<number> {
    return this.#guarded(call, options, async (response) => {
      await response.body?.cancel();
      return response.status;
    });
  }

  /** The whole body of a successful response. @throws ClientError */
  read(call: HttpCall, options: CallOptions): Promise<HttpResponse> {
    return this.#guarded(call, options, async (response) => {
      await expectOk(response);
      const { maxResponseBytes } = this.#options;
      const bytes = await readAll(response, maxResponseBytes);
      if (bytes === undefined) {
        throw new ClientError("protocol", `the answer has more than maxResponseBytes (${maxResponseBytes}) bytes`);
      }
      return { bytes, headers: response.headers };
    });
  }

  /** The data of each server-sent event. Ending the iteration aborts the call. @throws ClientError */
  async *events(call: HttpCall, options: CallOptions): AsyncGenerator<Uint8Array, void, undefined> {
    const deadline = new Deadline(options);
    const where = describe(call);
    try {
      const response = await this.#fetch(call, deadline);
      await expectOk(response);
      const parser = new EventStreamParser(this.#options.maxResponseBytes);
      for await (const chunk of chunksOf(response)) yield* parser.push(chunk);
      parser.end();
    } catch (error) {
      throw deadline.explain(error, where);
    }
  }

  async #guarded<T>(call: HttpCall, options: CallOptions, use: (response: Response) => Promise<T>): Promise<T> {
    const deadline = new Deadline(options);
    try {
      return await use(await this.#fetch(call, deadline));
    } catch (error) {
      throw deadline.explain(error, describe(call));
    }
  }

  #fetch({ method, path, headers, body }: HttpCall, deadline: Deadline): Promise<Response> {
    const { url, fetch } = this.#options;
    return fetch(`${url}${path}`, {
      method,
      headers: { ...this.#options.headers, ...headers },
      ...(body === undefined ? {} : { body }),
      ...(deadline.signal === undefined ? {} : { signal: deadline.signal }),
    });
  }
}

function describe({ method, path }: HttpCall): string {
  return `${method} ${path}`;
}

/** The chunks of a body; cancels the rest at the end. Not every browser iterates streams. */
async function* chunksOf({ body }: Response): AsyncGenerator<Uint8Array, void, undefined> {
  if (body === null) return;
  const reader = body.getReader();
  let isComplete = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      isComplete = done;
      if (value === undefined) return;
      yield value;
    }
  } finally {
    if (!isComplete) await reader.cancel().catch(ignoreLateFailure);
  }
}

/** The stream has failed already, and the caller gets that error. */
function ignoreLateFailure(): undefined {
  return undefined;
}

/** Undefined if there are more than `maxBytes`. */
async function readAll(response: Response, maxBytes: number): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of chunksOf(response)) {
    size += chunk.length;
    if (size > maxBytes) return undefined;
    chunks.push(chunk);
  }
  const [first] = chunks;
  if (first !== undefined && chunks.length === 1) return first;
  const all = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

async function expectOk(response: Response): Promise<void> {
  if (response.ok) return;
  const bytes = (await readAll(response, MAX_ERROR_BYTES)) ?? new Uint8Array(0);
  throw new ClientError(
    "server",
    errorMessage(bytes) ?? `HTTP ${response.status} ${response.statusText}`,
    response.status,
  );
}

/** The server's error message, or the beginning of a proxy's body. */
function errorMessage(bytes: Uint8Array): string | undefined {
  const text = decodeUtf8(bytes, 0, bytes.length).trim();
  if (text === "") return undefined;
  return tryMessageIn(text.startsWith("data:") ? firstEvent(bytes) : bytes) ?? shorten(text);
}

/** A stream that fails at its first event has the status of the error, and the error as an event. */
function firstEvent(bytes: Uint8Array): Uint8Array {
  return new EventStreamParser(MAX_ERROR_BYTES).push(bytes)[0] ?? bytes;
}

function tryMessageIn(bytes: Uint8Array): string | undefined {
  try {
    return errorIn(parseJson(bytes, "error"));
  } catch {
    return undefined;
  }
}

/** The message of `{"error": message}`; undefined for another document. */
export function errorIn(document: JsonData): string | undefined {
  if (!isRecord(document) || Object.keys(document).length !== 1) return undefined;
  return typeof document.error === "string" ? document.error : undefined;
}

function shorten(text: string): string {
  return text.length > MAX_ERROR_CHARS ? `${text.slice(0, MAX_ERROR_CHARS)}…` : text;
}
