/**
 * AWS Signature Version 4 for requests with a hashed or unsigned payload. Source: AWS documentation, "AWS Signature
 * Version 4 for API requests". Pure; tested with Amazon's examples.
 */
import { createHash, createHmac } from "node:crypto";

export interface S3Keys {
  readonly keyId: string;
  readonly secret: string;
  readonly sessionToken: string | undefined;
}

export interface RequestToSign {
  readonly method: string;
  /** Path and query are used unchanged: each part is encoded already. */
  readonly url: URL;
  /** Lower-case names; all of them are signed. */
  readonly headers: Readonly<Record<string, string>>;
  /** Hex SHA-256 of the body, or UNSIGNED-PAYLOAD. */
  readonly payloadHash: string;
}

export interface SigningScope {
  readonly region: string;
  readonly service: string;
  readonly atMs: number;
}

export const EMPTY_HASH: string = createHash("sha256").digest("hex");

/** The headers to send, including `authorization`; `host` is signed but not included. */
export function signed(
  { method, url, headers, payloadHash }: RequestToSign,
  keys: S3Keys,
  { region, service, atMs }: SigningScope,
): Record<string, string> {
  const stamp = new Date(atMs).toISOString().replaceAll(/[-:]|\.\d{3}/g, "");
  const day = stamp.slice(0, 8);
  const sent: Record<string, string> = { ...headers, "x-amz-date": stamp };
  if (service === "s3") sent["x-amz-content-sha256"] = payloadHash;
  if (keys.sessionToken !== undefined) sent["x-amz-security-token"] = keys.sessionToken;
  const names = ["host", ...Object.keys(sent)].sort();
  const lines = names.map((name) => `${name}:${trimmed(name === "host" ? url.host : (sent[name] ?? ""))}\n`);
  const signedNames = names.join(";");
  const canonical = [method, url.pathname, sortedQuery(url), lines.join(""), signedNames, payloadHash].join("\n");
  const scope = `${day}/${region}/${service}/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", stamp, scope, createHash("sha256").update(canonical).digest("hex")].join("\n");
  const signature = hmac(signingKey(keys.secret, day, region, service), text).toString("hex");
  sent.authorization = `AWS4-HMAC-SHA256 Credential=${keys.keyId}/${scope}, SignedHeaders=${signedNames}, Signature=${signature}`;
  return sent;
}

/** URI encoding of SigV4: everything but letters, digits and "-._~" becomes %XX. */
export function encodePart(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

export function queryText(query: Readonly<Record<string, string>>): string {
  return Object.entries(query)
    .map(([name, value]) => `${encodePart(name)}=${encodePart(value)}`)
    .join("&");
}

function sortedQuery(url: URL): string {
  const pairs = url.search.slice(1).split("&").filter(Boolean);
  return pairs
    .map((pair) => (pair.includes("=") ? pair : `${pair}=`))
    .sort()
    .join("&");
}

function trimmed(value: string): string {
  return value.trim().replaceAll(/ +/g, " ");
}

function signingKey(secret: string, day: string, region: string, service: string): Buffer {
  let key = hmac(`AWS4${secret}`, day);
  for (const part of [region, service, "aws4_request"]) key = hmac(key, part);
  return key;
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
