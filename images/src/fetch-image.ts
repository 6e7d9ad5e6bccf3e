/**
 * Fetches an image from a client's URL, protected against server-side request forgery (CWE-918). The name is resolved
 * once, every address is checked, and the connection uses the checked address. Redirects are not followed; sizes and
 * times are bounded. Knows no image formats.
 */
import { lookup as resolveName } from "node:dns";
import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { BoundedSignal } from "@nereid/server/core/bounded-signal";
import { MAX_IMAGE_BYTES } from "@nereid/server/core/limits";
import { invalidArgument, ServerError } from "@nereid/server/core/server-error";
import { isPublicAddress } from "./public-address.ts";

export interface FetchRules {
  /** "public": public addresses only, nothing of this machine and its networks. "any": any reachable address. */
  readonly reach: "public" | "any";
  /** Allowed hosts; empty: all. */
  readonly hosts: ReadonlySet<string>;
  readonly timeoutMs: number;
}

const OK = 200;

/** @throws ServerError whose text follows "image <n> "; it reveals nothing about the responding host */
export async function fetchImage(
  address: string,
  rules: FetchRules,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const bounded = new BoundedSignal(signal, rules.timeoutMs);
  try {
    return await fetchOnce(address, rules, bounded.signal);
  } catch (error) {
    if (signal.aborted) throw new ServerError("cancelled", "Request was cancelled");
    if (error instanceof ServerError) throw error;
    const why = bounded.signal.aborted ? `did not arrive within ${rules.timeoutMs} ms` : "could not be fetched";
    throw new ServerError("unavailable", why, { cause: error });
  } finally {
    bounded.clear();
  }
}

async function fetchOnce(address: string, rules: FetchRules, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  const response = await send(allowedUrl(address, rules), rules, signal);
  const status = response.statusCode ?? 0;
  if (status === OK) return readBody(response);
  response.destroy();
  throw invalidArgument(
    isRedirect(status)
      ? `is redirected (status ${status}), which is not followed: give the address that it leads to`
      : `could not be fetched: status ${status}`,
  );
}

function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

function allowedUrl(address: string, { hosts, reach }: FetchRules): URL {
  if (!URL.canParse(address)) throw invalidArgument("has an address that is no URL");
  const url = new URL(address);
  if (url.protocol !== "http:" && url.protocol !== "https:")
    throw invalidArgument("has an address that is not of http or https");
  if (url.username !== "" || url.password !== "")
    throw invalidArgument("has an address with a user name, which is not allowed");
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (hosts.size > 0 && !hosts.has(host)) throw invalidArgument("has an address at a host that is not allowed");
  // IP addresses in URLs are not resolved, so they are checked here.
  if (reach === "public" && isIP(host) !== 0 && !isPublicAddress(host)) throw notPublic();
  return url;
}

function send(url: URL, rules: FetchRules, signal: AbortSignal): Promise<IncomingMessage> {
  const request = url.protocol === "https:" ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const options = {
      signal,
      agent: false as const,
      lookup: rules.reach === "public" ? publicLookup : undefined,
      headers: { accept: "image/png, image/jpeg, image/webp" },
    };
    const call: ClientRequest = request(url, options, resolve);
    call.on("error", reject);
    call.end();
  });
}

/** Refuses a name when one of its addresses is not public: which one is used would be random. */
const publicLookup: LookupFunction = (host, options, callback) => {
  resolveName(host, { ...options, all: true }, (error, addresses) => {
    if (error !== null) {
      callback(error, "", 0);
      return;
    }
    const [first] = addresses;
    if (first === undefined || !addresses.every(({ address }) => isPublicAddress(address))) {
      callback(notPublic(), "", 0);
    } else if (options.all === true) {
      callback(null, addresses);
    } else {
      callback(null, first.address, first.family);
    }
  });
};

async function readBody(response: IncomingMessage): Promise<Uint8Array<ArrayBuffer>> {
  const tooLarge = invalidArgument(`has more than ${MAX_IMAGE_BYTES} bytes`);
  if (Number(response.headers["content-length"] ?? 0) > MAX_IMAGE_BYTES) {
    response.destroy();
    throw tooLarge;
  }
  const chunks: Buffer[] = [];
  let numBytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    numBytes += chunk.length;
    if (numBytes > MAX_IMAGE_BYTES) throw tooLarge; // this destroys the response
    chunks.push(chunk);
  }
  return Uint8Array.from(Buffer.concat(chunks));
}

function notPublic(): ServerError {
  return invalidArgument("has an address that is not of the public internet");
}
