/** HTTP by the platform's fetch (https://fetch.spec.whatwg.org/), which keeps connections alive itself. */
import { type Exchange, type ExchangeRequest, type ExchangeResponse, joinPieces } from "./exchange.ts";

export type Fetch = typeof globalThis.fetch;

/** `fetch`: in place of the global one. */
export function fetchExchange(fetch?: Fetch): Exchange {
  // Browsers refuse their fetch as a member of another object.
  const send = fetch ?? ((input, init) => globalThis.fetch(input, init));
  return async ({ method, url, headers, pieces, signal }: ExchangeRequest) => {
    // Bodies of fetch are one array; the copy of several parts is the price of it.
    const body = pieces.length === 0 ? {} : { body: joinPieces(pieces) as Uint8Array<ArrayBuffer> };
    const response = await send(url, { method, headers, ...body, ...(signal === undefined ? {} : { signal }) });
    return new FetchResponse(response);
  };
}

class FetchResponse implements ExchangeResponse {
  readonly #response: Response;

  constructor(response: Response) {
    this.#response = response;
  }

  get status(): number {
    return this.#response.status;
  }

  get statusText(): string {
    return this.#response.statusText;
  }

  header(name: string): string | null {
    return this.#response.headers.get(name);
  }

  async bytes(maxBytes: number, alignedAt?: number): Promise<Uint8Array | undefined> {
    const length = this.header("content-length");
    // The length of an encoded body says nothing about what comes out of it.
    if (length !== null && this.header("content-encoding") === null && Number(length) <= maxBytes) {
      return new Uint8Array(await this.#response.arrayBuffer());
    }
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of this.chunks()) {
      size += chunk.length;
      if (size > maxBytes) return undefined;
      chunks.push(chunk);
    }
    return joinPieces(chunks, alignedAt);
  }

  /** Not every browser iterates streams. */
  async *chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    const { body } = this.#response;
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

  async cancel(): Promise<void> {
    await this.#response.body?.cancel();
  }
}

/** The stream has failed already, and the caller gets that error. */
function ignoreLateFailure(): undefined {
  return undefined;
}
