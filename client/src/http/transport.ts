/**
 * One HTTP call with its attempts: address, headers, a size limit of the response, and errors of one class. Knows no
 * path of the protocol. Source: RFC 9110.
 */
import { decodeUtf8 } from "@nereid/wire";
import { runAttempts } from "../attempts.ts";
import type { CallOptions } from "../call-options.ts";
import { type HedgeOptions, RetryBudget, type RetryPolicy, retryPolicy } from "../call-policy.ts";
import { ClientError } from "../client-error.ts";
import { Deadline } from "../deadline.ts";
import type { ErrorContext } from "../error-details.ts";
import { isRecord, type JsonData, parseJson } from "../json-document.ts";
import { EventStreamParser } from "./event-stream.ts";
import type { Exchange, ExchangeResponse } from "./exchange.ts";

export interface TransportOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly exchange: Exchange;
  readonly maxResponseBytes: number;
  readonly timeoutMs: number | undefined;
  readonly retry: RetryPolicy;
}

export interface HttpCall extends ErrorContext {
  readonly method: "GET" | "POST";
  /** Path behind the server's address, percent-encoded. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Parts of the body. */
  readonly pieces?: readonly Uint8Array[];
  readonly hedge?: HedgeOptions | undefined;
  /** The call may run twice without harm. Default: calls by GET may. */
  readonly isIdempotent?: boolean | undefined;
}

export interface HttpResponse {
  readonly bytes: Uint8Array;
  header(name: string): string | null;
}

/** Bytes read of an error's body: messages are short, pages of proxies are not. */
const MAX_ERROR_BYTES = 65_536;
const MAX_ERROR_CHARS = 1000;

export class Transport {
  readonly #options: TransportOptions;
  readonly #budget = new RetryBudget();

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  /** The status of the response. @throws ClientError */
  status(call: HttpCall, options: CallOptions): Promise<number> {
    return this.#run(call, options, async (response) => {
      await response.cancel();
      return response.status;
    });
  }

  /** The whole body of a successful response. @throws ClientError */
  read(call: HttpCall, options: CallOptions): Promise<HttpResponse> {
    return this.#run(call, options, async (response) => {
      await expectOk(response, call);
      const { maxResponseBytes } = this.#options;
      const bytes = await response.bytes(maxResponseBytes, alignedAt(response));
      if (bytes === undefined) {
        const message = `the answer has more than maxResponseBytes (${maxResponseBytes}) bytes`;
        throw new ClientError("protocol", message, contextOf(call));
      }
      return { bytes, header: (name) => response.header(name) };
    });
  }

  /** The data of each server-sent event. Ending the iteration aborts the call. @throws ClientError */
  async *events(call: HttpCall, options: CallOptions): AsyncGenerator<Uint8Array, void, undefined> {
    const deadline = this.#deadline(options);
    try {
      const response = await this.#attempts(call, options, deadline, async (opened) => {
        await expectOk(opened, call);
        return opened;
      });
      const parser = new EventStreamParser(this.#options.maxResponseBytes);
      for await (const chunk of response.chunks()) yield* parser.push(chunk);
      parser.end();
    } catch (error) {
      throw deadline.explain(error, describe(call), contextOf(call));
    } finally {
      deadline.end();
    }
  }

  async #run<T>(call: HttpCall, options: CallOptions, use: (response: ExchangeResponse) => Promise<T>): Promise<T> {
    const deadline = this.#deadline(options);
    try {
      return await this.#attempts(call, options, deadline, use);
    } finally {
      deadline.end();
    }
  }

  #deadline({ signal, timeoutMs = this.#options.timeoutMs }: CallOptions): Deadline {
    return new Deadline({ signal, timeoutMs });
  }

  #attempts<T>(
    call: HttpCall,
    options: CallOptions,
    deadline: Deadline,
    use: (response: ExchangeResponse) => Promise<T>,
  ): Promise<T> {
    const { url, exchange, retry } = this.#options;
    const { method, path, pieces = [] } = call;
    const request = {
      method,
      url: `${url}${path}${queryOf(options.query)}`,
      headers: { "accept-encoding": "identity", ...this.#options.headers, ...call.headers, ...options.headers },
      pieces,
    };
    return runAttempts(async (signal) => use(await exchange({ ...request, signal })), {
      deadline,
      budget: this.#budget,
      retry: retryPolicy(options.retry, retry),
      hedge: call.hedge,
      isIdempotent: call.isIdempotent ?? method === "GET",
      explain: (error) => deadline.explain(error, describe(call), contextOf(call)),
    });
  }
}

/** Tensors follow the JSON (Triton's binary data extension). */
function alignedAt(response: ExchangeResponse): number | undefined {
  const length = Number(response.header("inference-header-content-length"));
  return Number.isSafeInteger(length) && length >= 0 ? length : undefined;
}

function contextOf({ model, requestId }: HttpCall): ErrorContext {
  return { model, requestId };
}

function describe({ method, path }: HttpCall): string {
  return `${method} ${path}`;
}

function queryOf(query: CallOptions["query"]): string {
  if (query === undefined) return "";
  const text = new URLSearchParams(query).toString();
  return text === "" ? "" : `?${text}`;
}

async function expectOk(response: ExchangeResponse, call: HttpCall): Promise<void> {
  const { status, statusText } = response;
  if (status >= 200 && status < 300) return;
  const bytes = (await response.bytes(MAX_ERROR_BYTES)) ?? new Uint8Array(0);
  const retryAfterMs = retryAfter(response.header("retry-after"));
  const message = errorMessage(bytes) ?? `HTTP ${status} ${statusText}`;
  throw new ClientError("server", message, { ...contextOf(call), status, retryAfterMs });
}

/** Seconds, or a date, which is left to the backoff (RFC 9110, 10.2.3). */
function retryAfter(value: string | null): number | undefined {
  return value !== null && /^\d{1,6}$/.test(value) ? Number(value) * 1000 : undefined;
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
