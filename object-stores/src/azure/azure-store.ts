/** Blobs of an Azure storage container. Source: Azure Blob Storage REST API, "List Blobs" and "Get Blob". */
import { ToolError } from "@nereid/server/files/tool-error";
import { exchange, exchangeText } from "../exchange.ts";
import { IdentityKeeper } from "../identity-keeper.ts";
import { folderPrefix, keyOf, ListingBuilder, readPages } from "../listing-builder.ts";
import type { Checksum, Listing, ObjectReply, ObjectStore, StoredObject } from "../object-store.ts";
import { asStale } from "../stale-listing.ts";
import { xmlElements, xmlText } from "../xml.ts";
import type { AzureIdentity } from "./azure-identity.ts";
import { sharedKeyAuthorization } from "./shared-key.ts";

export interface AzureStoreOptions {
  readonly url: string;
  /** Endpoint of the account, without a trailing slash. */
  readonly endpoint: string;
  readonly container: string;
  readonly prefix: string;
  readonly stallMs: number;
  readonly findIdentity: (signal: AbortSignal) => Promise<AzureIdentity>;
}

const VERSION = "2021-08-06";

export class AzureStore implements ObjectStore {
  readonly url: string;
  readonly #options: AzureStoreOptions;
  readonly #identity: IdentityKeeper<AzureIdentity>;

  constructor(options: AzureStoreOptions) {
    this.url = options.url;
    this.#options = options;
    this.#identity = new IdentityKeeper(() => options.findIdentity(new AbortController().signal));
  }

  async list(folder: string, isDeep: boolean, signal: AbortSignal): Promise<Listing> {
    const { prefix, stallMs } = this.#options;
    const listing = new ListingBuilder(this.url, prefix);
    const base = {
      restype: "container",
      comp: "list",
      prefix: folderPrefix(prefix, folder),
      ...(isDeep ? {} : { delimiter: "/" }),
      include: "metadata",
    };
    await readPages(this.url, async (marker) => {
      const query = marker === undefined ? base : { ...base, marker };
      const { text } = await this.#send("", query, {}, (request) => exchangeText(request, { stallMs, signal }));
      if (!text.includes("<EnumerationResults")) throw new ToolError(`${this.url}: the server is no blob storage`);
      for (const element of xmlElements(text, "Blob")) addBlob(listing, element);
      for (const element of xmlElements(text, "BlobPrefix")) listing.addFolder(xmlText(element, "Name") ?? "");
      return xmlText(text, "NextMarker");
    });
    return listing.build();
  }

  async open(object: StoredObject, fromByte: number, signal: AbortSignal): Promise<ObjectReply> {
    const headers: Record<string, string> = { "if-match": `"${object.version.replaceAll('"', "")}"` };
    if (fromByte > 0) headers.range = `bytes=${fromByte}-`;
    const path = `/${keyOf(this.#options.prefix, object.path).split("/").map(encodeURIComponent).join("/")}`;
    try {
      return await this.#send(path, {}, headers, (request) =>
        exchange(request, { stallMs: this.#options.stallMs, signal }),
      );
    } catch (error) {
      throw asStale(error, [404, 412], this.url, object.path);
    }
  }

  #send<T>(
    path: string,
    query: Readonly<Record<string, string>>,
    headers: Readonly<Record<string, string>>,
    action: (request: { url: URL; headers: Record<string, string> }) => Promise<T>,
  ): Promise<T> {
    return this.#identity.use(
      (identity) => action(this.#request(identity, path, query, headers)),
      (identity) => JSON.stringify(identity),
    );
  }

  #request(
    identity: AzureIdentity,
    path: string,
    query: Readonly<Record<string, string>>,
    headers: Readonly<Record<string, string>>,
  ): { url: URL; headers: Record<string, string> } {
    const { endpoint, container } = this.#options;
    const url = new URL(`${endpoint}/${encodeURIComponent(container)}${path}`);
    url.search = new URLSearchParams(query).toString();
    const sent: Record<string, string> = {
      ...headers,
      "x-ms-date": new Date().toUTCString(),
      "x-ms-version": VERSION,
    };
    if (identity.kind === "sas") url.search = [url.search.slice(1), identity.query].filter(Boolean).join("&");
    if (identity.kind === "token") sent.authorization = `Bearer ${identity.token}`;
    if (identity.kind === "key") {
      const { account, key } = identity;
      sent.authorization = sharedKeyAuthorization({ method: "GET", url, headers: sent }, account, key);
    }
    return { url, headers: sent };
  }
}

/** Accounts with a hierarchical namespace list folders as blobs with `hdi_isfolder` or resource type "directory". */
function addBlob(listing: ListingBuilder, xml: string): void {
  const name = xmlText(xml, "Name") ?? "";
  const isFolder = xmlText(xml, "hdi_isfolder") === "true" || xmlText(xml, "ResourceType") === "directory";
  if (isFolder) {
    listing.addFolder(name);
    return;
  }
  const bytes = Number(xmlText(xml, "Content-Length") ?? "none");
  listing.addObject(name, bytes, xmlText(xml, "Etag") ?? "", checksumOf(xmlText(xml, "Content-MD5")));
}

/** Content-MD5: present for blobs of one upload, or when the writer set it. */
function checksumOf(md5: string | undefined): Checksum | undefined {
  return md5 === undefined || md5 === "" ? undefined : { kind: "md5", hex: Buffer.from(md5, "base64").toString("hex") };
}
