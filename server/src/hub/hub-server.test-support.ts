/**
 * A local hub for tests: listings, files with ranges, redirects of large files to a second origin, tokens, and fault
 * injection. It records requests. Source: Hugging Face Hub API.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface FakeFile {
  readonly content: Buffer;
  /** An LFS file, served by the second origin. */
  readonly isLarge: boolean;
}

/** A fault in one response. */
export type HubFault =
  | { readonly kind: "cut"; readonly afterBytes: number }
  | { readonly kind: "wrong bytes" }
  | { readonly kind: "too long" }
  | { readonly kind: "status"; readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  | { readonly kind: "no ranges" }
  | { readonly kind: "wrong range" }
  | { readonly kind: "silence" };

export interface SeenRequest {
  readonly origin: "hub" | "content";
  readonly path: string;
  readonly range: string | undefined;
  readonly authorization: string | undefined;
}

export class FakeHub implements AsyncDisposable {
  readonly files: Map<string, FakeFile> = new Map();
  readonly requests: SeenRequest[] = [];
  /** Faults of the next responses for a path, in order; an empty list means none. */
  readonly faults: Map<string, HubFault[]> = new Map();
  /** The only repository. */
  repoId: string = "org/tiny";
  commit: string = "0123456789abcdef0123456789abcdef01234567";
  token: string | undefined;
  bytesPerSecond: number = Number.POSITIVE_INFINITY;
  /** Overrides the listing of the files. */
  listing: unknown;
  readonly #hub: Server;
  readonly #content: Server;

  private constructor(hub: Server, content: Server) {
    this.#hub = hub;
    this.#content = content;
  }

  /** Listens on the two ports; 0 lets the system choose. */
  static async start(ports: readonly [number, number] = [0, 0]): Promise<FakeHub> {
    const hub = createServer();
    const content = createServer();
    const fake = new FakeHub(hub, content);
    hub.on("request", (request, response) => fake.#answerHub(request, response));
    content.on("request", (request, response) => fake.#answerContent(request, response));
    await Promise.all([
      once(hub.listen(ports[0], "127.0.0.1"), "listening"),
      once(content.listen(ports[1], "127.0.0.1"), "listening"),
    ]);
    return fake;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#hub.address() as AddressInfo).port}`;
  }

  add(path: string, content: string | Buffer, isLarge = false): void {
    this.files.set(path, { content: Buffer.from(content), isLarge });
  }

  fail(path: string, ...faults: HubFault[]): void {
    this.faults.set(path, faults);
  }

  /** Requests for contents; redirected ones count once. */
  fetches(path: string): SeenRequest[] {
    return this.requests.filter(
      (each) => each.path.endsWith(`/${path}`) && (each.origin === "content") === this.#isLarge(path),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of [this.#hub, this.#content]) {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    }
  }

  #isLarge(path: string): boolean {
    return this.files.get(path)?.isLarge === true;
  }

  #answerHub(request: IncomingMessage, response: ServerResponse): void {
    const { pathname } = new URL(request.url ?? "", this.endpoint);
    this.#note("hub", request, pathname);
    if (this.token !== undefined && request.headers.authorization !== `Bearer ${this.token}`) {
      response.writeHead(401, { "x-error-code": "RepoNotFound" }).end();
      return;
    }
    const listed = `/api/models/${this.repoId}/revision/`;
    if (pathname.startsWith(listed)) {
      this.#answerListing(response, decodeURIComponent(pathname.slice(listed.length)));
      return;
    }
    const stored = `/${this.repoId}/resolve/${this.commit}/`;
    const path = pathname.startsWith(stored) ? decodeURIComponent(pathname.slice(stored.length)) : "";
    const file = this.files.get(path);
    if (file === undefined) response.writeHead(404, { "x-error-code": "EntryNotFound" }).end();
    else if (file.isLarge) {
      const port = (this.#content.address() as AddressInfo).port;
      response.writeHead(302, { location: `http://127.0.0.1:${port}/store/${encodeURIComponent(path)}` }).end();
    } else this.#send(request, response, path, file.content);
  }

  #answerListing(response: ServerResponse, revision: string): void {
    const fault = this.faults.get("listing")?.shift();
    if (fault?.kind === "status") {
      response.writeHead(fault.status, fault.headers).end();
      return;
    }
    if (revision !== "main" && revision !== this.commit) {
      response.writeHead(404, { "x-error-code": "RevisionNotFound" }).end();
      return;
    }
    const siblings = [...this.files].map(([rfilename, { content, isLarge }]) => ({
      rfilename,
      size: content.length,
      blobId: gitHash(content),
      ...(isLarge ? { lfs: { sha256: sha256(content), size: content.length, pointerSize: 130 } } : {}),
    }));
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify(this.listing ?? { id: "org/tiny", sha: this.commit, siblings }));
  }

  #answerContent(request: IncomingMessage, response: ServerResponse): void {
    const { pathname } = new URL(request.url ?? "", this.endpoint);
    const path = decodeURIComponent(pathname.replace(/^\/store\//, ""));
    this.#note("content", request, `/store/${path}`);
    this.#send(request, response, path, this.files.get(path)?.content ?? Buffer.alloc(0));
  }

  #send(request: IncomingMessage, response: ServerResponse, path: string, content: Buffer): void {
    const fault = this.faults.get(path)?.shift();
    if (fault?.kind === "silence") return;
    if (fault?.kind === "status") {
      response.writeHead(fault.status, fault.headers).end();
      return;
    }
    const asked = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? Number.NaN);
    const start = fault?.kind === "no ranges" || !(asked <= content.length) ? 0 : asked;
    const told = fault?.kind === "wrong range" ? start + 1 : start;
    const range = { "content-range": `bytes ${told}-${content.length - 1}/${content.length}` };
    const length = fault === undefined ? { "content-length": content.length - start } : {};
    response.writeHead(start === 0 ? 200 : 206, start === 0 ? length : { ...range, ...length });
    void this.#write(
      response,
      bytesWith(fault, content).subarray(start),
      fault?.kind === "cut" ? fault.afterBytes : undefined,
    );
  }

  async #write(response: ServerResponse, bytes: Buffer, cutAfter: number | undefined): Promise<void> {
    const end = cutAfter ?? bytes.length;
    const step = Number.isFinite(this.bytesPerSecond) ? Math.ceil(this.bytesPerSecond / 50) : 1 << 20;
    for (let at = 0; at < end && !response.destroyed; at += step) {
      if (!response.write(bytes.subarray(at, Math.min(at + step, end)))) await drained(response);
      if (Number.isFinite(this.bytesPerSecond)) await new Promise((resolve) => setTimeout(resolve, 20));
    }
    if (cutAfter === undefined) response.end();
    else setTimeout(() => response.destroy(), 20); // what was written gets out first
  }

  #note(origin: "hub" | "content", { headers }: IncomingMessage, path: string): void {
    this.requests.push({ origin, path, range: headers.range, authorization: headers.authorization });
  }
}

/** The socket drained, or the client has gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const onEither = (): void => {
      response.off("drain", onEither);
      response.off("close", onEither);
      resolve();
    };
    response.on("drain", onEither);
    response.on("close", onEither);
  });
}

function bytesWith(fault: HubFault | undefined, content: Buffer): Buffer {
  if (fault?.kind === "too long") return Buffer.concat([content, Buffer.from("more")]);
  if (fault?.kind !== "wrong bytes") return content;
  const changed = Buffer.from(content);
  const last = changed.length - 1;
  changed[last] = (changed[last] ?? 0) ^ 1;
  return changed;
}

export function sha256(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}

export function gitHash(content: Buffer): string {
  return createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");
}
