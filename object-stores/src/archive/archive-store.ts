/**
 * One archive behind an address, as a store with a single object: length, version, bytes. HTTP ranges and validators:
 * RFC 9110, sections 8.8 and 14.
 */
import { ToolError } from "@nereid/server/files/tool-error";
import { exchange } from "../exchange.ts";
import { expectLength } from "../object-path.ts";
import type { Listing, ObjectReply, ObjectStore, StoredObject } from "../object-store.ts";
import { StaleListing } from "../stale-listing.ts";

export interface ArchiveStoreOptions {
  /** As written, without user and password. */
  readonly url: string;
  readonly sha256: string | undefined;
  readonly stallMs: number;
}

export class ArchiveStore implements ObjectStore {
  readonly url: string;
  readonly #address: URL;
  readonly #options: ArchiveStoreOptions;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(options: ArchiveStoreOptions) {
    const address = new URL(options.url);
    this.#headers = authorization(address);
    address.username = "";
    address.password = "";
    this.#address = address;
    this.url = `${address.origin}${address.pathname}`;
    this.#options = options;
  }

  /** Requests the first byte: not every server answers HEAD, and the response shows whether ranges work. */
  async list(_folder: string, _isDeep: boolean, signal: AbortSignal): Promise<Listing> {
    const { response, done } = await this.#get({ range: "bytes=0-0" }, signal);
    try {
      const { headers } = response;
      const total = /^bytes 0-0\/(\d+)$/.exec(headers.get("content-range") ?? "")?.[1] ?? headers.get("content-length");
      if (total === null) throw new ToolError(`${this.url}: the server does not tell the length of the archive`);
      const path = this.#address.pathname.split("/").at(-1) ?? "";
      const { sha256 } = this.#options;
      const object: StoredObject = {
        path,
        bytes: expectLength(Number(total), path, this.url),
        version: versionOf(headers),
        checksum: sha256 === undefined ? undefined : { kind: "sha256", hex: sha256 },
      };
      return { objects: [object], folders: [] };
    } finally {
      await response.body?.cancel().catch(() => undefined);
      done();
    }
  }

  async open(object: StoredObject, fromByte: number, signal: AbortSignal): Promise<ObjectReply> {
    const range: Record<string, string> = fromByte === 0 ? {} : { range: `bytes=${fromByte}-` };
    const reply = await this.#get(range, signal);
    if (versionOf(reply.response.headers) === object.version) return reply;
    await reply.response.body?.cancel().catch(() => undefined);
    reply.done();
    throw new StaleListing(`${this.url} has changed since it was looked at`);
  }

  #get(headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<ObjectReply> {
    const request = { url: this.#address, headers: { ...this.#headers, ...headers }, followsRedirects: true };
    return exchange(request, { stallMs: this.#options.stallMs, signal });
  }
}

/** The entity tag alone when there is one: a mirror may give the same content another date. */
function versionOf(headers: Headers): string {
  return headers.get("etag") ?? headers.get("last-modified") ?? "";
}

function authorization({ username, password }: URL): Record<string, string> {
  if (username === "" && password === "") return {};
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { authorization: `Basic ${Buffer.from(pair).toString("base64")}` };
}
