/** A KServe V2 server over gRPC: its address, health, metadata and models. For Node, Deno and Bun. */
import { DEFAULT_RETRY, type RetryOptions, retryPolicy } from "../call-policy.ts";
import { InferenceClient } from "../inference-client.ts";
import type { ServedModels } from "../model-types.ts";
import { MAX_RESPONSE_BYTES } from "../nereid-client.ts";
import type { TlsOptions } from "../node/http-pool.ts";
import { Channel } from "./channel.ts";
import { GrpcApi } from "./grpc-api.ts";
import { GrpcModelHandle } from "./grpc-model-handle.ts";
import { GrpcTransport } from "./grpc-transport.ts";
import { InferMessageReader } from "./infer-message.ts";

export interface GrpcClientOptions {
  /** E.g. "http://localhost:8001", or "https://" for TLS. */
  readonly url: string;
  /** Metadata of every call. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Connections that calls take turns on. Default: 1. */
  readonly connections?: number | undefined;
  /** Pings find lost connections in this interval while calls are open. Default: none. */
  readonly keepAliveMs?: number | undefined;
  /** Wait for the answer to a ping. Default: 20000. */
  readonly keepAliveTimeoutMs?: number | undefined;
  /** Longest message that is accepted. */
  readonly maxResponseBytes?: number | undefined;
  /** Limit of each call that gives none itself. Default: none. */
  readonly timeoutMs?: number | undefined;
  /** How calls are tried again after safe failures; false: never. */
  readonly retry?: RetryOptions | false | undefined;
  readonly tls?: TlsOptions | undefined;
}

const KEEP_ALIVE_TIMEOUT_MS = 20_000;

/** `Models`: types that `nereid types` wrote. Without them every name, datatype and shape is allowed. */
export class NereidGrpcClient<Models extends ServedModels = ServedModels>
  extends InferenceClient
  implements Disposable
{
  readonly #api: GrpcApi;
  readonly #transport: GrpcTransport;
  readonly #reader: InferMessageReader;
  readonly #channel: Channel;

  /** @throws TypeError for an address that is none @throws RangeError for other options */
  constructor(options: GrpcClientOptions) {
    const { connections = 1 } = options;
    if (!(Number.isInteger(connections) && connections >= 1)) {
      throw new RangeError(`connections: expected 1 or more, got ${connections}`);
    }
    const channel = new Channel({
      authority: authorityOf(options.url),
      headers: options.headers ?? {},
      connections,
      keepAliveMs: options.keepAliveMs,
      keepAliveTimeoutMs: options.keepAliveTimeoutMs ?? KEEP_ALIVE_TIMEOUT_MS,
      maxResponseBytes: options.maxResponseBytes ?? MAX_RESPONSE_BYTES,
      tls: options.tls,
    });
    const retry = retryPolicy(options.retry, DEFAULT_RETRY);
    const transport = new GrpcTransport({ channel, timeoutMs: options.timeoutMs, retry });
    const reader = new InferMessageReader();
    const api = new GrpcApi(transport, reader);
    super(api);
    this.#api = api;
    this.#transport = transport;
    this.#reader = reader;
    this.#channel = channel;
  }

  /** A model by its name; sends nothing yet. @throws RangeError for a name or version that cannot be */
  model<N extends keyof Models & string>(name: N, version?: string | number): GrpcModelHandle<Models[N]> {
    return new GrpcModelHandle<Models[N]>(this.#api, this.#transport, this.#reader, name, version);
  }

  /** Closes all connections. Idle ones do not keep a program alive. */
  close(): void {
    this.#channel.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function authorityOf(url: string): string {
  const { protocol, origin } = new URL(url);
  if (protocol !== "http:" && protocol !== "https:") {
    throw new TypeError(`url: expected http:// or https://, got '${url}'`);
  }
  return origin;
}
