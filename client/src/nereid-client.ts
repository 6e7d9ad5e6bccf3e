/** A KServe V2 server over HTTP: its address, health, metadata and models. Runs wherever there is fetch. */
import { DEFAULT_RETRY, type RetryOptions, retryPolicy } from "./call-policy.ts";
import type { Exchange } from "./http/exchange.ts";
import { type Fetch, fetchExchange } from "./http/fetch-exchange.ts";
import { HttpApi } from "./http/http-api.ts";
import { HttpModelHandle } from "./http/http-model-handle.ts";
import { Transport } from "./http/transport.ts";
import { InferenceClient } from "./inference-client.ts";
import type { ServedModels } from "./model-types.ts";

export interface NereidClientOptions {
  /** E.g. "http://localhost:8000"; a path in front of `/v2` is kept. */
  readonly url: string;
  /** Headers of every call. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Sends requests in place of the platform's own way, e.g. through a proxy. */
  readonly fetch?: Fetch | undefined;
  /** Longest response, or event of a stream, that is accepted. */
  readonly maxResponseBytes?: number | undefined;
  /** Limit of each call that gives none itself. Default: none. */
  readonly timeoutMs?: number | undefined;
  /** How calls are tried again after safe failures; false: never. */
  readonly retry?: RetryOptions | false | undefined;
}

/** Default of `maxResponseBytes`: the limit of a protobuf message, which no tensor of a server exceeds. */
export const MAX_RESPONSE_BYTES: number = 2 ** 31 - 1;

/** `Models`: types that `nereid types` wrote. Without them every name, datatype and shape is allowed. */
export class NereidClient<Models extends ServedModels = ServedModels> extends InferenceClient {
  readonly #api: HttpApi;
  readonly #transport: Transport;

  /** @throws TypeError for an address that is none of http or https @throws RangeError for other options */
  constructor(options: NereidClientOptions, exchange: Exchange = fetchExchange(options.fetch)) {
    const transport = new Transport({
      url: baseUrl(options.url),
      headers: options.headers ?? {},
      exchange,
      maxResponseBytes: options.maxResponseBytes ?? MAX_RESPONSE_BYTES,
      timeoutMs: options.timeoutMs,
      retry: retryPolicy(options.retry, DEFAULT_RETRY),
    });
    const api = new HttpApi(transport);
    super(api);
    this.#api = api;
    this.#transport = transport;
  }

  /** A model by its name; sends nothing yet. @throws RangeError for a name or version that no path can hold */
  model<N extends keyof Models & string>(name: N, version?: string | number): HttpModelHandle<Models[N]> {
    return new HttpModelHandle(this.#api, this.#transport, name, version);
  }
}

function baseUrl(url: string): string {
  const { protocol, origin, pathname } = new URL(url);
  if (protocol !== "http:" && protocol !== "https:") {
    throw new TypeError(`url: expected http:// or https://, got '${url}'`);
  }
  return `${origin}${pathname.replace(/\/+$/, "")}`;
}
