/** A local Ollama registry for tests: manifests, blobs with ranges, and the requests that it saw. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface FakeLayer {
  /** `model`, `params`, `system`, `template`, ... */
  readonly kind: string;
  readonly content: string | Uint8Array;
}

export class FakeRegistry implements AsyncDisposable {
  readonly requests: string[] = [];
  /** The next response for a blob ends after so many bytes. */
  cutAfter: number | undefined;
  readonly #manifests = new Map<string, unknown>();
  readonly #blobs = new Map<string, Buffer>();
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    server.on("request", (request, response) => this.#answer(request, response));
  }

  static async start(): Promise<FakeRegistry> {
    const server = createServer();
    await once(server.listen(0, "127.0.0.1"), "listening");
    return new FakeRegistry(server);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** `name`: `library/tiny:3b`. */
  add(name: string, layers: readonly FakeLayer[]): void {
    const [path = "", tag = ""] = name.split(":");
    const entries = layers.map(({ kind, content }) => {
      const bytes = Buffer.from(content);
      const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
      this.#blobs.set(digest, bytes);
      return { mediaType: `application/vnd.ollama.image.${kind}`, digest, size: bytes.length };
    });
    this.#manifests.set(`/v2/${path}/manifests/${tag}`, { schemaVersion: 2, layers: entries });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  #answer({ url = "", headers }: IncomingMessage, response: ServerResponse): void {
    this.requests.push(url);
    const manifest = this.#manifests.get(url);
    const blob = this.#blobs.get(/\/blobs\/(.*)$/.exec(url)?.[1] ?? "");
    if (manifest !== undefined) response.end(JSON.stringify(manifest));
    else if (blob === undefined) response.writeHead(404).end();
    else this.#send(response, blob, Number(/^bytes=(\d+)-$/.exec(headers.range ?? "")?.[1] ?? 0));
  }

  #send(response: ServerResponse, blob: Buffer, start: number): void {
    const range = { "content-range": `bytes ${start}-${blob.length - 1}/${blob.length}` };
    response.writeHead(start === 0 ? 200 : 206, start === 0 ? {} : range);
    const end = this.cutAfter ?? blob.length;
    const isCut = this.cutAfter !== undefined;
    this.cutAfter = undefined;
    response.write(blob.subarray(start, end), () => (isCut ? response.destroy() : response.end()));
  }
}
