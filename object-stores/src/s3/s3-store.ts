/**
 * Objects of an S3 bucket, at Amazon or any compatible service: listed and read by signed requests. Source: Amazon S3
 * API, ListObjectsV2 and GetObject.
 */
import { ToolError } from "@nereid/server/files/tool-error";
import { exchange, exchangeText, RefusedRequest } from "../exchange.ts";
import { IdentityKeeper } from "../identity-keeper.ts";
import { folderPrefix, keyOf, ListingBuilder, readPages } from "../listing-builder.ts";
import type { Checksum, Listing, ObjectReply, ObjectStore, StoredObject } from "../object-store.ts";
import { asStale } from "../stale-listing.ts";
import { xmlElements, xmlText } from "../xml.ts";
import type { S3Identity } from "./s3-credentials.ts";
import { EMPTY_HASH, encodePart, queryText, signed } from "./sigv4.ts";

export interface S3StoreOptions {
  readonly url: string;
  /** Undefined: Amazon's endpoint of the bucket's region. */
  readonly endpoint: string | undefined;
  readonly bucket: string;
  /** Without leading and trailing slashes. */
  readonly prefix: string;
  readonly stallMs: number;
  /** Resolves credentials anew at each call. */
  readonly findIdentity: (signal: AbortSignal) => Promise<S3Identity>;
}

const PAGE_SIZE = "1000";

export class S3Store implements ObjectStore {
  readonly url: string;
  readonly #options: S3StoreOptions;
  readonly #identity: IdentityKeeper<S3Identity>;
  /** Region found for the bucket. */
  #region: string | undefined;

  constructor(options: S3StoreOptions) {
    this.url = options.url;
    this.#options = options;
    this.#identity = new IdentityKeeper(() => options.findIdentity(new AbortController().signal));
  }

  async list(folder: string, isDeep: boolean, signal: AbortSignal): Promise<Listing> {
    const { prefix } = this.#options;
    const listing = new ListingBuilder(this.url, prefix);
    const base = {
      ...(isDeep ? {} : { delimiter: "/" }),
      "encoding-type": "url",
      "list-type": "2",
      "max-keys": PAGE_SIZE,
      prefix: folderPrefix(prefix, folder),
    };
    await readPages(this.url, async (token) => {
      const xml = await this.#text(token === undefined ? base : { "continuation-token": token, ...base }, signal);
      for (const element of xmlElements(xml, "Contents")) {
        const version = xmlText(element, "ETag") ?? xmlText(element, "LastModified") ?? "";
        listing.addObject(keyText(element, "Key"), Number(xmlText(element, "Size") ?? "none"), version, undefined);
      }
      for (const element of xmlElements(xml, "CommonPrefixes")) listing.addFolder(keyText(element, "Prefix"));
      return xmlText(xml, "IsTruncated") === "true" ? xmlText(xml, "NextContinuationToken") : undefined;
    });
    return listing.build();
  }

  async open(object: StoredObject, fromByte: number, signal: AbortSignal): Promise<ObjectReply> {
    const headers: Record<string, string> = { "x-amz-checksum-mode": "ENABLED" };
    if (fromByte > 0) headers.range = `bytes=${fromByte}-`;
    if (object.version.startsWith('"')) headers["if-match"] = object.version;
    try {
      const reply = await this.#send(keyOf(this.#options.prefix, object.path), {}, headers, (request) =>
        exchange(request, { stallMs: this.#options.stallMs, signal }),
      );
      return { ...reply, checksum: checksumOf(reply.response.headers) };
    } catch (error) {
      throw asStale(error, [404, 412], this.url, object.path);
    }
  }

  async #text(query: Readonly<Record<string, string>>, signal: AbortSignal): Promise<string> {
    const patience = { stallMs: this.#options.stallMs, signal };
    const { text } = await this.#send("", query, {}, (request) => exchangeText(request, patience));
    if (!text.includes("<ListBucketResult")) throw new ToolError(`${this.url}: the server is no S3 store`);
    return text;
  }

  /** Retries in the bucket's own region, or with new credentials. */
  async #send<T>(
    key: string,
    query: Readonly<Record<string, string>>,
    headers: Readonly<Record<string, string>>,
    action: (request: { url: URL; headers: Record<string, string> }) => Promise<T>,
  ): Promise<T> {
    const identity = await this.#identity.get();
    try {
      return await action(this.#request(identity, key, query, headers));
    } catch (error) {
      if (!(error instanceof RefusedRequest)) throw error;
      const region = error.headers.get("x-amz-bucket-region");
      const isElsewhere = region !== null && region !== (this.#region ?? identity.region);
      if (isElsewhere) this.#region = region;
      else if (error.status === 401 || error.status === 403 || error.status === 400) this.#identity.refused(identity);
      else throw error;
      const again = await this.#identity.get();
      if (!isElsewhere && JSON.stringify(again.keys) === JSON.stringify(identity.keys)) throw error;
      return action(this.#request(again, key, query, headers));
    }
  }

  #request(
    { keys, region: ownRegion }: S3Identity,
    key: string,
    query: Readonly<Record<string, string>>,
    headers: Readonly<Record<string, string>>,
  ): { url: URL; headers: Record<string, string> } {
    const region = this.#region ?? ownRegion;
    const url = new URL(`${this.#base(region)}${key === "" ? "" : key.split("/").map(encodePart).join("/")}`);
    url.search = queryText(query);
    if (keys === undefined) return { url, headers: { ...headers } };
    const scope = { region, service: "s3", atMs: Date.now() };
    return { url, headers: signed({ method: "GET", url, headers, payloadHash: EMPTY_HASH }, keys, scope) };
  }

  /** Dots in a bucket name do not match the certificate of `*.s3.<region>.amazonaws.com`, so use path style. */
  #base(region: string): string {
    const { endpoint, bucket } = this.#options;
    if (endpoint !== undefined) return `${endpoint}/${bucket}/`;
    const suffix = region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
    return bucket.includes(".")
      ? `https://s3.${region}.${suffix}/${bucket}/`
      : `https://${bucket}.s3.${region}.${suffix}/`;
  }
}

/** `encoding-type=url`, since XML cannot hold every key. */
function keyText(xml: string, name: string): string {
  const encoded = xmlText(xml, name) ?? "";
  try {
    return decodeURIComponent(encoded.replaceAll("+", " "));
  } catch (error) {
    throw new ToolError(`The listing has the name '${encoded}', which is not encoded as was asked`, { cause: error });
  }
}

/** The ETag is the MD5 of single-part uploads without SSE-KMS or SSE-C encryption. */
function checksumOf(headers: Headers): Checksum | undefined {
  const tag = /^"?([0-9a-f]{32})"?$/.exec(headers.get("etag") ?? "")?.[1];
  const encryption = headers.get("x-amz-server-side-encryption") ?? "AES256";
  const isPlain = encryption === "AES256" && headers.get("x-amz-server-side-encryption-customer-algorithm") === null;
  if (tag !== undefined && isPlain) return { kind: "md5", hex: tag };
  return wholeChecksum(headers, "sha256") ?? wholeChecksum(headers, "crc32c");
}

/** A composite checksum ends in "-<number of parts>", or its type says COMPOSITE. */
function wholeChecksum(headers: Headers, kind: "sha256" | "crc32c"): Checksum | undefined {
  const text = headers.get(`x-amz-checksum-${kind}`);
  const isWhole = (headers.get("x-amz-checksum-type") ?? "FULL_OBJECT") === "FULL_OBJECT";
  if (text === null || text.includes("-") || !isWhole || headers.get("content-range") !== null) return undefined;
  return { kind, hex: Buffer.from(text, "base64").toString("hex") };
}
