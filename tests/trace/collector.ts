/** A collector of OpenTelemetry for tests: takes spans over HTTP and keeps them. */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, string>> }[];
  readonly events: readonly { readonly name: string; readonly timeUnixNano: string }[];
}

interface Export {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: CollectedSpan["attributes"] };
    readonly scopeSpans: readonly { readonly spans: readonly CollectedSpan[] }[];
  }[];
}

export class Collector {
  readonly spans: CollectedSpan[] = [];
  readonly resources: CollectedSpan["attributes"][] = [];
  readonly paths: string[] = [];
  readonly #server: Server;

  constructor() {
    this.#server = createServer((request, response) => {
      void this.#take(request).then(() => response.writeHead(200, { "content-type": "application/json" }).end("{}"));
    });
  }

  /** The address to send spans to. */
  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1/traces`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** The spans of one trace, in the order of their beginnings. */
  trace(traceId: string): CollectedSpan[] {
    const spans = this.spans.filter((span) => span.traceId === traceId);
    return spans.sort((a, b) => Number(BigInt(a.startTimeUnixNano) - BigInt(b.startTimeUnixNano)));
  }

  async #take(request: IncomingMessage): Promise<void> {
    const { resourceSpans } = JSON.parse(await text(request)) as Export;
    this.paths.push(`${request.method} ${request.url} ${request.headers["content-type"]}`);
    for (const { resource, scopeSpans } of resourceSpans) {
      this.resources.push(resource.attributes);
      for (const { spans } of scopeSpans) this.spans.push(...spans);
    }
  }
}
