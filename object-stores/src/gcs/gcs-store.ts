/** Objects of a Google Cloud Storage bucket. Source: Cloud Storage JSON API, "Objects: list" and "Objects: get". */
import { ToolError } from "@nereid/server/files/tool-error";
import { asRecord } from "../credential-file.ts";
import { exchange, exchangeJson } from "../exchange.ts";
import { IdentityKeeper } from "../identity-keeper.ts";
import { folderPrefix, keyOf, ListingBuilder, readPages } from "../listing-builder.ts";
import type { Checksum, Listing, ObjectReply, ObjectStore, StoredObject } from "../object-store.ts";
import { asStale } from "../stale-listing.ts";
import type { BearerIdentity } from "./gcs-identity.ts";

export interface GcsStoreOptions {
  readonly url: string;
  /** Without a trailing slash. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly prefix: string;
  readonly stallMs: number;
  readonly findIdentity: (signal: AbortSignal) => Promise<BearerIdentity>;
}

export class GcsStore implements ObjectStore {
  readonly url: string;
  readonly #options: GcsStoreOptions;
  readonly #identity: IdentityKeeper<BearerIdentity>;

  constructor(options: GcsStoreOptions) {
    this.url = options.url;
    this.#options = options;
    this.#identity = new IdentityKeeper(() => options.findIdentity(new AbortController().signal));
  }

  async list(folder: string, isDeep: boolean, signal: AbortSignal): Promise<Listing> {
    const { prefix, stallMs } = this.#options;
    const listing = new ListingBuilder(this.url, prefix);
    const base = { prefix: folderPrefix(prefix, folder), ...(isDeep ? {} : { delimiter: "/" }) };
    await readPages(this.url, async (token) => {
      const query = token === undefined ? base : { ...base, pageToken: token };
      const page = await this.#send("", query, (request) => exchangeJson(request, { stallMs, signal }));
      for (const item of arrayOf(page.items)) this.#addItem(listing, asRecord(item) ?? {});
      for (const folder of arrayOf(page.prefixes)) listing.addFolder(String(folder));
      return typeof page.nextPageToken === "string" ? page.nextPageToken : undefined;
    });
    return listing.build();
  }

  async open(object: StoredObject, fromByte: number, signal: AbortSignal): Promise<ObjectReply> {
    const headers: Record<string, string> = fromByte === 0 ? {} : { range: `bytes=${fromByte}-` };
    const query = { alt: "media", generation: object.version };
    try {
      return await this.#send(`/${encodeURIComponent(keyOf(this.#options.prefix, object.path))}`, query, (request) =>
        exchange(
          { url: request.url, headers: { ...request.headers, ...headers } },
          { stallMs: this.#options.stallMs, signal },
        ),
      );
    } catch (error) {
      throw asStale(error, [404], this.url, object.path);
    }
  }

  async #send<T>(
    object: string,
    query: Readonly<Record<string, string>>,
    action: (request: { url: URL; headers: Record<string, string> }) => Promise<T>,
  ): Promise<T> {
    const { endpoint, bucket } = this.#options;
    const url = new URL(`${endpoint}/storage/v1/b/${encodeURIComponent(bucket)}/o${object}`);
    url.search = new URLSearchParams(query).toString();
    return this.#identity.use(
      (identity) => action({ url, headers: authorization(identity) }),
      ({ token }) => token ?? "",
    );
  }

  #addItem(listing: ListingBuilder, item: Readonly<Record<string, unknown>>): void {
    const name = String(item.name ?? "");
    if (item.contentEncoding === "gzip") {
      throw new ToolError(
        `${this.url}: '${name}' is stored with Content-Encoding gzip, so that its length is unknown`,
        {
          fix: "Upload it without a content encoding",
        },
      );
    }
    const version = String(item.generation ?? item.updated ?? "");
    listing.addObject(name, Number(item.size ?? "none"), version, checksumOf(item));
  }
}

function authorization({ token }: BearerIdentity): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

/** Composed objects have a CRC32C and no MD5. */
function checksumOf({ md5Hash, crc32c }: Readonly<Record<string, unknown>>): Checksum | undefined {
  if (typeof md5Hash === "string") return { kind: "md5", hex: Buffer.from(md5Hash, "base64").toString("hex") };
  if (typeof crc32c === "string") return { kind: "crc32c", hex: Buffer.from(crc32c, "base64").toString("hex") };
  return undefined;
}

function arrayOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
