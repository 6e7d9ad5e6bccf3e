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
  /** Headers of every call. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Replaces the global fetch, e.g. for a proxy or a certificate. */
  readonly fetch?: Fetch | undefined;
  /** Longest response, or event of a stream, that is accepted. */
  readonly maxResponseBytes?: number | undefined;
}

/** Default of `maxResponseBytes`: the limit of a protobuf message, which no tensor of a server exceeds. */
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

  /** Whether the server is live. @throws ClientError if it does not answer */
  isLive(options: CallOptions = {}): Promise<boolean> {
    return isHealthy(this.#transport, "/v2/health/live", options);
  }

  /** Whether the server and all its models are ready. @throws ClientError if it does not answer */
  isReady(options: CallOptions = {}): Promise<boolean> {
    return isHealthy(this.#transport, "/v2/health/ready", options);
  }

  async serverMetadata(options: CallOptions = {}): Promise<ServerMetadata> {
    const { bytes } = await this.#transport.read({ method: "GET", path: "/v2" }, options);
    return readServerMetadata(parseJsonRecord(bytes, "/v2"));
  }

  /** A model by its name; sends nothing yet. @throws RangeError for a name or version that no path can hold */
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
