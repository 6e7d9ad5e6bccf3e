/**
 * Azure's Shared Key signature for reading blobs, version 2009-09-19 and later. Source: Azure Storage REST API,
 * "Authorize with Shared Key". Pure.
 */
import { createHmac } from "node:crypto";

export interface AzureRequest {
  readonly method: "GET" | "HEAD";
  readonly url: URL;
  /** Lower-case names, including `x-ms-date` and `x-ms-version`. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Standard headers in signature order; most are empty for a request without a body. */
const STANDARD = [
  "content-encoding",
  "content-language",
  "content-length",
  "content-md5",
  "content-type",
  "date",
  "if-modified-since",
  "if-match",
  "if-none-match",
  "if-unmodified-since",
  "range",
];

/** Value of the authorization header. `key` is base64. */
export function sharedKeyAuthorization(request: AzureRequest, account: string, key: string): string {
  const text = stringToSign(request, account);
  const signature = createHmac("sha256", Buffer.from(key, "base64")).update(text, "utf8").digest("base64");
  return `SharedKey ${account}:${signature}`;
}

export function stringToSign({ method, url, headers }: AzureRequest, account: string): string {
  const extensions = Object.keys(headers)
    .filter((name) => name.startsWith("x-ms-"))
    .sort()
    .map((name) => `${name}:${(headers[name] ?? "").trim()}\n`);
  const standard = STANDARD.map((name) => `${headers[name] ?? ""}\n`);
  return `${method}\n${standard.join("")}${extensions.join("")}${canonicalResource(url, account)}`;
}

function canonicalResource({ pathname, searchParams }: URL, account: string): string {
  const values = new Map<string, string[]>();
  for (const [name, value] of searchParams) {
    const key = name.toLowerCase();
    values.set(key, [...(values.get(key) ?? []), value]);
  }
  const query = [...values]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, all]) => `\n${name}:${all.sort().join(",")}`);
  return `/${account}${pathname}${query.join("")}`;
}
