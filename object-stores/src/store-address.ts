/**
 * Parses remote `--model-repository` values: s3://, gs://, as://, hub and archive addresses. Source: Triton
 * documentation, "Model Repository", Cloud Storage. Pure.
 */
import { ToolError } from "@nereid/server/files/tool-error";

export type StoreAddress =
  | {
      readonly kind: "s3";
      /** Undefined: Amazon's endpoint. */
      readonly endpoint: string | undefined;
      readonly bucket: string;
      readonly prefix: string;
    }
  | { readonly kind: "gs"; readonly bucket: string; readonly prefix: string }
  | { readonly kind: "as"; readonly account: string; readonly container: string; readonly prefix: string }
  | { readonly kind: "hf"; readonly name: string }
  | { readonly kind: "archive"; readonly url: string; readonly sha256: string | undefined };

/** @throws ToolError stating the expected form */
export function parseStoreAddress(text: string): StoreAddress {
  if (text.startsWith("s3://")) return parseS3(text);
  if (text.startsWith("gs://")) return parseGcs(text);
  if (text.startsWith("as://")) return parseAzure(text);
  if (text.startsWith("hf://")) return { kind: "hf", name: text };
  if (/^https?:\/\//.test(text)) return parseArchive(text);
  throw wrong(text, "a folder, or an address that begins with s3://, gs://, as://, hf:// or https://");
}

const S3_FORM = "s3://<bucket>/<path>, s3://<host>:<port>/<bucket>/<path> or s3://https://<host>/<bucket>/<path>";

/** Without a scheme of its own, a host is recognised by its port. */
function parseS3(text: string): StoreAddress {
  const match = /^s3:\/\/(?:(https?):\/\/)?(.*)$/.exec(text);
  const [, scheme, rest = ""] = match ?? [];
  const [first = "", ...parts] = rest.split("/");
  const hasHost = scheme !== undefined || /:\d+$/.test(first);
  const [bucket = "", ...path] = hasHost ? parts : [first, ...parts];
  if (!/^[a-z0-9][a-z0-9._-]{1,62}$/i.test(bucket) || (hasHost && !/^[\w.-]+(?::\d{1,5})?$/.test(first))) {
    throw wrong(text, S3_FORM);
  }
  const endpoint = hasHost ? `${scheme ?? "http"}://${first}` : undefined;
  return { kind: "s3", endpoint, bucket, prefix: joined(path) };
}

function parseGcs(text: string): StoreAddress {
  const [bucket = "", ...path] = text.slice("gs://".length).split("/");
  if (!/^[a-z0-9][a-z0-9._-]{1,221}$/.test(bucket)) throw wrong(text, "gs://<bucket>/<path>");
  return { kind: "gs", bucket, prefix: joined(path) };
}

function parseAzure(text: string): StoreAddress {
  const [host = "", container = "", ...path] = text.slice("as://".length).split("/");
  const account = host.replace(/\.blob\.core\.windows\.net$/, "");
  if (!/^[a-z0-9][a-z0-9-]{1,62}$/.test(account) || !/^\$?[a-z0-9][a-z0-9-]{1,62}$/.test(container)) {
    throw wrong(text, "as://<account>.blob.core.windows.net/<container>/<path>");
  }
  return { kind: "as", account, container, prefix: joined(path) };
}

const LOOPBACK_HOSTS: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** Plain HTTP is accepted from this machine, or with an expected hash. */
function parseArchive(text: string): StoreAddress {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const sha256 = /^#sha256=([0-9a-f]{64})$/i.exec(url?.hash ?? "")?.[1]?.toLowerCase();
  if (url === undefined || !/\.(?:tar|tar\.gz|tgz)$/.test(url.pathname) || (url.hash !== "" && sha256 === undefined)) {
    throw wrong(text, "https://<host>/<path>.tar.gz, .tgz or .tar, optionally with #sha256=<64 hex digits>");
  }
  if (url.protocol === "http:" && sha256 === undefined && !LOOPBACK_HOSTS.has(url.hostname)) {
    throw new ToolError(`${text}: without TLS anybody on the network path could change these models`, {
      fix: "Use https, or add #sha256=<hex> so that the bytes can be checked",
    });
  }
  url.hash = "";
  return { kind: "archive", url: url.href, sha256 };
}

function joined(parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join("/");
}

function wrong(text: string, form: string): ToolError {
  return new ToolError(`'${text}' is no model repository: expected ${form}`);
}
