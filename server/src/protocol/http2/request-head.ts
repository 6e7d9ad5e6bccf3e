/** Validates the header fields of a request (RFC 9113, 8.2 and 8.3) and builds the request. Knows no frames. */

export interface RequestHead {
  /** By lower-case name, `:method` and its like among them; of repeated fields the values with commas between. */
  readonly headers: Readonly<Record<string, string>>;
  /** Names and values in turn, as they came. */
  readonly fields: readonly string[];
  /** content-length; undefined when the client sends none. */
  readonly contentLength: number | undefined;
}

const PSEUDO: ReadonlySet<string> = new Set([":method", ":scheme", ":path", ":authority"]);
const REQUIRED = [":method", ":scheme", ":path"] as const;
/** Belong to a connection of HTTP/1.1. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);
const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;
const BAD_VALUE = /[\0\r\n]/;
const LENGTH = /^[0-9]{1,15}$/;

/** Undefined when the request is malformed. */
export function readRequestHead(fields: readonly string[]): RequestHead | undefined {
  const headers = Object.create(null) as Record<string, string>;
  let isRegular = false;
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    const before = headers[name];
    isRegular ||= !name.startsWith(":");
    if (isRegular ? !isRegularField(name, value) : before !== undefined || !isPseudoField(name, value))
      return undefined;
    headers[name] = before === undefined ? value : `${before}${name === "cookie" ? "; " : ", "}${value}`;
  }
  if (REQUIRED.some((name) => (headers[name] ?? "") === "")) return undefined;
  return withLength(headers, fields);
}

function withLength(headers: Readonly<Record<string, string>>, fields: readonly string[]): RequestHead | undefined {
  const length = headers["content-length"];
  if (length === undefined) return { headers, fields, contentLength: undefined };
  return LENGTH.test(length) ? { headers, fields, contentLength: Number(length) } : undefined;
}

/** Behind a body: no field about the message itself. */
export function areGoodTrailers(fields: readonly string[]): boolean {
  for (let at = 0; at < fields.length; at += 2) {
    if (!isRegularField(fields[at] ?? "", fields[at + 1] ?? "")) return false;
  }
  return true;
}

function isPseudoField(name: string, value: string): boolean {
  return PSEUDO.has(name) && !BAD_VALUE.test(value);
}

function isRegularField(name: string, value: string): boolean {
  if (!NAME.test(name) || HOP_BY_HOP.has(name) || BAD_VALUE.test(value)) return false;
  return name !== "te" || value === "trailers";
}
