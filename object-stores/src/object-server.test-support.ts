/**
 * Local servers that speak the S3, Google Cloud Storage and Azure Blob protocols over the same objects. They implement
 * paging, ranges, conditions, authentication and fault injection, and record requests.
 */
import { createHash, createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { stringToSign } from "./azure/shared-key.ts";
import { EMPTY_HASH, signed } from "./s3/sigv4.ts";

export type Dialect = "s3" | "gs" | "as";

/** A fault in one response. */
export type StoreFault =
  | { readonly kind: "cut"; readonly afterBytes: number }
  | { readonly kind: "wrong bytes" }
  | { readonly kind: "too long" }
  | { readonly kind: "status"; readonly status: number }
  | { readonly kind: "no ranges" }
  | { readonly kind: "silence" };

export interface Asked {
  /** "list" or the name of the object. */
  readonly what: string;
  readonly range: string | undefined;
}

export const S3_KEYS = {
  keyId: "AKIDEXAMPLE",
  secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
  sessionToken: undefined,
};
export const AZURE_KEY: string = Buffer.from("a key of thirty-two bytes, or so.").toString("base64");
export const ACCOUNT = "devaccount";
export const BUCKET = "models";

/** Clients that see data and end of connection together drop the data. */
const CUT_DELAY_MS = 200;

interface Kept {
  readonly content: Buffer;
  readonly version: number;
}

export class ObjectServer implements AsyncDisposable {
  readonly asked: Asked[] = [];
  /** Faults of the next responses for an object, or for "list", in order. */
  readonly faults: Map<string, StoreFault[]> = new Map();
  /** Keys per page. */
  pageSize = 3;
  /** Bearer token required on the GCS side; undefined: anonymous access. */
  token: string | undefined;
  /** Objects have no checksums, like composed objects. */
  isWithoutChecksums = false;
  bytesPerSecond: number = Number.POSITIVE_INFINITY;
  region = "us-east-1";
  /** Requests for another region get the right one in the error. */
  tellsRegion = false;
  readonly #objects = new Map<string, Kept>();
  readonly #server: Server;
  #versions = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(dialect: Dialect, port = 0): Promise<ObjectServer> {
    const server = createServer();
    const started = new ObjectServer(server);
    server.on("request", (request, response) => {
      started.#answer(dialect, request, response).catch((error: unknown) => {
        response.destroy(error instanceof Error ? error : new Error(String(error)));
      });
    });
    await once(server.listen(port, "127.0.0.1"), "listening");
    return started;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  put(name: string, content: string | Buffer): void {
    this.#versions += 1;
    this.#objects.set(name, { content: Buffer.from(content), version: this.#versions });
  }

  remove(name: string): void {
    this.#objects.delete(name);
  }

  fail(what: string, ...faults: StoreFault[]): void {
    this.faults.set(what, faults);
  }

  gets(name: string): Asked[] {
    return this.asked.filter(({ what }) => what === name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #answer(dialect: Dialect, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "", `http://${request.headers.host}`); // signed with the name that was asked
    const refusal = this.#refusal(dialect, request, url);
    if (refusal !== undefined) {
      response.writeHead(403, {
        "content-type": "application/xml",
        ...(this.tellsRegion ? { "x-amz-bucket-region": this.region } : {}),
      });
      response.end(`<Error><Code>${refusal}</Code><Message>not you</Message></Error>`);
      return;
    }
    const name = objectName(dialect, url);
    this.asked.push({ what: name ?? "list", range: request.headers.range });
    const fault = this.faults.get(name ?? "list")?.shift();
    if (fault?.kind === "silence") return;
    if (fault?.kind === "status") {
      response.writeHead(fault.status).end("<Error><Code>StoreFault</Code><Message>as told</Message></Error>");
      return;
    }
    if (name === undefined) this.#list(dialect, url, response);
    else await this.#send(dialect, name, request, url, response, fault);
  }

  /** Undefined: the request is authorized. */
  #refusal(dialect: Dialect, { headers, method = "" }: IncomingMessage, url: URL): string | undefined {
    if (dialect === "gs") {
      return this.token === undefined || headers.authorization === `Bearer ${this.token}` ? undefined : "Forbidden";
    }
    if (dialect === "s3") return signatureProblem(headers, method, url, this.region);
    const sent = Object.fromEntries(Object.entries(headers).map(([key, value]) => [key, String(value)]));
    const text = stringToSign({ method: method as "GET", url, headers: standardOnly(sent) }, ACCOUNT);
    const signature = createHmac("sha256", Buffer.from(AZURE_KEY, "base64")).update(text).digest("base64");
    return headers.authorization === `SharedKey ${ACCOUNT}:${signature}` ? undefined : "AuthenticationFailed";
  }

  #list(dialect: Dialect, url: URL, response: ServerResponse): void {
    const query = url.searchParams;
    const prefix = query.get("prefix") ?? "";
    const after = query.get("continuation-token") ?? query.get("pageToken") ?? query.get("marker") ?? "";
    const isDeep = query.get("delimiter") === null;
    const names = new Set(
      [...this.#objects.keys()]
        .filter((name) => name.startsWith(prefix))
        .map((name) => {
          const end = isDeep ? -1 : name.indexOf("/", prefix.length);
          return end < 0 ? name : name.slice(0, end + 1);
        }),
    );
    const sorted = [...names].sort().filter((name) => name > after);
    const page = sorted.slice(0, this.pageSize);
    const next = sorted.length > page.length ? page.at(-1) : undefined;
    const isFolder = (name: string): boolean => !isDeep && name.endsWith("/") && name !== prefix;
    const objects = page.filter((name) => !isFolder(name));
    const text = this.#page(dialect, objects, page.filter(isFolder), next);
    response.writeHead(200, { "content-type": dialect === "gs" ? "application/json" : "application/xml" }).end(text);
  }

  #page(dialect: Dialect, names: readonly string[], folders: readonly string[], next: string | undefined): string {
    if (dialect === "gs") {
      const items = names.map((name) => ({
        name,
        size: String(this.#kept(name).content.length),
        generation: String(this.#kept(name).version),
        ...(this.isWithoutChecksums ? {} : { md5Hash: md5(this.#kept(name).content).toString("base64") }),
      }));
      return JSON.stringify({ items, prefixes: folders, nextPageToken: next });
    }
    if (dialect === "s3") {
      const contents = names.map((name) => {
        const { content } = this.#kept(name);
        return `<Contents><Key>${encodeURIComponent(name)}</Key><ETag>&quot;${this.#tag(name)}&quot;</ETag><Size>${content.length}</Size></Contents>`;
      });
      const prefixes = folders.map(
        (name) => `<CommonPrefixes><Prefix>${encodeURIComponent(name)}</Prefix></CommonPrefixes>`,
      );
      const more = next === undefined ? "false" : "true";
      return `<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>${more}</IsTruncated>${contents.join("")}${prefixes.join("")}${next === undefined ? "" : `<NextContinuationToken>${next}</NextContinuationToken>`}</ListBucketResult>`;
    }
    const blobs = names.map((name) => {
      const { content } = this.#kept(name);
      const sum = this.isWithoutChecksums ? "" : `<Content-MD5>${md5(content).toString("base64")}</Content-MD5>`;
      return `<Blob><Name>${name.replaceAll("&", "&amp;")}</Name><Properties><Etag>0x${this.#tag(name)}</Etag><Content-Length>${content.length}</Content-Length>${sum}</Properties><Metadata /></Blob>`;
    });
    const prefixes = folders.map((name) => `<BlobPrefix><Name>${name}</Name></BlobPrefix>`);
    return `\ufeff<?xml version="1.0"?><EnumerationResults><Blobs>${blobs.join("")}${prefixes.join("")}</Blobs><NextMarker>${next ?? ""}</NextMarker></EnumerationResults>`;
  }

  async #send(
    dialect: Dialect,
    name: string,
    request: IncomingMessage,
    url: URL,
    response: ServerResponse,
    fault: StoreFault | undefined,
  ): Promise<void> {
    const kept = this.#objects.get(name);
    const wanted = url.searchParams.get("generation");
    if (kept === undefined || (wanted !== null && wanted !== String(kept.version))) {
      response.writeHead(404).end();
      return;
    }
    const tag = dialect === "as" ? `"0x${this.#tag(name)}"` : `"${this.#tag(name)}"`;
    const condition = request.headers["if-match"];
    if (condition !== undefined && condition !== tag) {
      response.writeHead(412).end();
      return;
    }
    const from = fault?.kind === "no ranges" ? 0 : Number(/^bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0);
    const total = kept.content.length;
    const body = damaged(kept.content.subarray(from), fault);
    response.writeHead(from > 0 ? 206 : 200, {
      etag: tag,
      ...(from > 0 ? { "content-range": `bytes ${from}-${total - 1}/${total}` } : {}),
      ...(fault?.kind === "too long" ? {} : { "content-length": total - from }),
    });
    if (fault?.kind === "cut") {
      response.write(body, () => setTimeout(() => response.socket?.end(), CUT_DELAY_MS));
      return;
    }
    await this.#write(response, body);
    response.end();
  }

  async #write(response: ServerResponse, body: Buffer): Promise<void> {
    const step = Math.min(body.length, Math.max(1, this.bytesPerSecond / 20));
    for (let at = 0; at < body.length && !response.destroyed; at += step) {
      response.write(body.subarray(at, at + step));
      if (step < body.length) await new Promise((resolve) => setTimeout(resolve, 50));
    }
    if (body.length > 0) await new Promise((resolve) => setImmediate(resolve));
  }

  #kept(name: string): Kept {
    return this.#objects.get(name) ?? { content: Buffer.alloc(0), version: 0 };
  }

  /** A multipart upload's entity tag is no MD5. */
  #tag(name: string): string {
    const { content, version } = this.#kept(name);
    return this.isWithoutChecksums ? `${md5(content).toString("hex")}-${version}` : md5(content).toString("hex");
  }
}

function objectName(dialect: Dialect, url: URL): string | undefined {
  const isList = dialect === "gs" ? url.searchParams.get("alt") === null : url.searchParams.has("prefix");
  if (isList) return undefined;
  const root = dialect === "gs" ? `/storage/v1/b/${BUCKET}/o/` : `/${BUCKET}/`;
  return decodeURIComponent(url.pathname.slice(root.length));
}

function damaged(content: Buffer, fault: StoreFault | undefined): Buffer {
  if (fault?.kind === "cut") return content.subarray(0, fault.afterBytes);
  if (fault?.kind === "too long") return Buffer.concat([content, Buffer.from("and more")]);
  if (fault?.kind !== "wrong bytes") return content;
  const wrong = Buffer.from(content);
  wrong[0] = (wrong[0] ?? 0) ^ 1;
  return wrong;
}

/** Recomputes the signature of the request with the server's key. */
function signatureProblem(
  headers: IncomingMessage["headers"],
  method: string,
  url: URL,
  region: string,
): string | undefined {
  const { authorization = "" } = headers;
  const names = /SignedHeaders=([^,]+)/.exec(authorization)?.[1]?.split(";") ?? [];
  const own = new Set(["host", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"]);
  const sent = Object.fromEntries(names.filter((name) => !own.has(name)).map((name) => [name, String(headers[name])]));
  const stamp = String(headers["x-amz-date"]).replace(/^(\d{4})(\d\d)(\d\dT\d\d)(\d\d)(\d\dZ)$/, "$1-$2-$3:$4:$5");
  const scope = { region, service: "s3", atMs: Date.parse(stamp) };
  if (Number.isNaN(scope.atMs)) return "AccessDenied";
  const expected = signed({ method, url, headers: sent, payloadHash: EMPTY_HASH }, S3_KEYS, scope);
  return expected.authorization === authorization ? undefined : "SignatureDoesNotMatch";
}

/** Node adds headers that no client has signed. */
function standardOnly(headers: Readonly<Record<string, string>>): Record<string, string> {
  const signedNames = ["range", "if-match"];
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => name.startsWith("x-ms-") || signedNames.includes(name)),
  );
}

function md5(content: Buffer): Buffer {
  return createHash("md5").update(content).digest();
}
