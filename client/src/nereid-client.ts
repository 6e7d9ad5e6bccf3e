/** A KServe V2 server: its address, health, metadata and models. Runs wherever there is fetch. */
import type { CallOptions } from "./deadline.ts";
import { isHealthy } from "./health.ts";
import { parseJsonRecord } from "./json-document.ts";
import { readServerMetadata, type ServerMetadata } from "./metadata.ts";
import { ModelHandle } from "./model-handle.ts";
import { RepositoryClient } from "./repository-client.ts";
import { type Fetch, Transport } from "./transport.ts";

export interface NereidClientOptions {
  /** E.g. "http://localhost:8000"; a path in front of `/v2` is kept. */
  readonly url: string;
  /** Sent with every call. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Stands in for the global one, e.g. for a proxy or a certificate. */
  readonly fetch?: Fetch | undefined;
  /** An answer, or one event of a stream, that is longer is refused: no server fills the memory. */
  readonly maxResponseBytes?: number | undefined;
}

/** What a server takes in one request. */
const MAX_RESPONSE_BYTES: number = 2 ** 31 - 1;

export class NereidClient {
  readonly repository: RepositoryClient;
  readonly #transport: Transport;

  /** @throws TypeError for an address that is none of http or https */
  constructor({ url, headers = {}, fetch, maxResponseBytes = MAX_RESPONSE_BYTES }: NereidClientOptions) {
    this.#transport = new Transport({
      url: baseUrl(url),
      headers,
      // Browsers refuse their fetch as a member of another object.
      fetch: fetch ?? ((input, init) => globalThis.fetch(input, init)),
      maxResponseBytes,
    });
    this.repository = new RepositoryClient(this.#transport);
  }

  /** The server runs. @throws ClientError when it cannot be asked */
  isLive(options: CallOptions = {}): Promise<boolean> {
    return isHealthy(this.#transport, "/v2/health/live", options);
  }

  /** The server and all its models can take requests. @throws ClientError when it cannot be asked */
  isReady(options: CallOptions = {}): Promise<boolean> {
    return isHealthy(this.#transport, "/v2/health/ready", options);
  }

  async serverMetadata(options: CallOptions = {}): Promise<ServerMetadata> {
    const { bytes } = await this.#transport.read({ method: "GET", path: "/v2" }, options);
    return readServerMetadata(parseJsonRecord(bytes, "/v2"));
  }

  /** A model by its name; nothing is asked yet. @throws RangeError for a name or version that no path can hold */
  model(name: string, version?: string | number): ModelHandle {
    return new ModelHandle(this.#transport, name, version);
  }
}

function baseUrl(url: string): string {
  const { protocol, origin, pathname } = new URL(url);
  if (protocol !== "http:" && protocol !== "https:") {
    throw new TypeError(`url: expected http:// or https://, got '${url}'`);
  }
  return `${origin}${pathname.replace(/\/+$/, "")}`;
}
