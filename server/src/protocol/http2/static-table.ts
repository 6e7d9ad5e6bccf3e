/** The static table of HPACK (RFC 7541, appendix A). */

const TABLE = `:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate`;

const FIELDS: readonly (readonly [string, string])[] = TABLE.split("\n").map((line) => {
  const at = line.indexOf(" ");
  return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1)];
});

/** Index 0 is not used. */
export const STATIC_NAMES: readonly string[] = ["", ...FIELDS.map(([name]) => name)];
export const STATIC_VALUES: readonly string[] = ["", ...FIELDS.map(([, value]) => value)];

const FULL: ReadonlyMap<string, number> = new Map(
  FIELDS.map(([name, value], i) => [`${name}\0${value}`, i + 1] as const).filter(([key]) => !key.endsWith("\0")),
);
/** The first index of each name. */
const NAMES: ReadonlyMap<string, number> = new Map(FIELDS.map(([name], i) => [name, i + 1] as const).reverse());

/** The index of a whole field; 0 = none. */
export function staticField(name: string, value: string): number {
  return FULL.get(`${name}\0${value}`) ?? 0;
}

/** The index of a name; 0 = none. */
export function staticName(name: string): number {
  return NAMES.get(name) ?? 0;
}
