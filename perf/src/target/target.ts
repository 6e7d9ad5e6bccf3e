/** The server of a load test, from flags to an address. */
import { readFileSync } from "node:fs";
import { UsageError } from "@nereid/server/cli/arguments";
import { fileError } from "@nereid/server/files/tool-error";
import type { Address, TlsOptions } from "../load/connect.ts";

export interface Target {
  readonly address: Address;
  /** As a URL, without a slash at the end. */
  readonly base: string;
  /** Path in front of the protocol's paths. */
  readonly prefix: string;
  readonly hostHeader: string;
}

export interface TlsFlags {
  readonly "ssl-grpc-use-ssl": boolean;
  readonly "ssl-https-verify-peer": number;
  readonly "ssl-https-ca-certificates-file": string | undefined;
  readonly "ssl-https-client-certificate-file": string | undefined;
  readonly "ssl-https-private-key-file": string | undefined;
}

const DEFAULT_PORTS = { "http:": 80, "https:": 443, "grpc:": 8001, "grpcs:": 443 } as const;

/** @throws UsageError for a URL that is none, ToolError for files that cannot be read */
export function parseTarget(text: string, flags: TlsFlags): Target {
  const url = /^[a-z]+:\/\//i.test(text) ? text : `http://${text}`;
  if (!URL.canParse(url)) throw new UsageError(`-u is host:port or a URL, got '${text}'`);
  const { protocol, hostname, port, pathname, host } = new URL(url);
  if (!Object.hasOwn(DEFAULT_PORTS, protocol)) throw new UsageError(`-u is an http, https or grpc URL, got '${text}'`);
  const isTls = protocol === "https:" || protocol === "grpcs:" || flags["ssl-grpc-use-ssl"];
  const prefix = pathname.replace(/\/+$/, "");
  return {
    address: {
      host: hostname.replace(/^\[|\]$/g, ""),
      port: Number(port === "" ? DEFAULT_PORTS[protocol as keyof typeof DEFAULT_PORTS] : port),
      tls: isTls ? tlsOf(flags) : undefined,
    },
    base: `${isTls ? "https" : "http"}://${host}${prefix}`,
    prefix,
    hostHeader: host,
  };
}

function tlsOf(flags: TlsFlags): TlsOptions {
  return {
    ca: read(flags["ssl-https-ca-certificates-file"]),
    cert: read(flags["ssl-https-client-certificate-file"]),
    key: read(flags["ssl-https-private-key-file"]),
    isVerified: flags["ssl-https-verify-peer"] === 1,
  };
}

function read(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw fileError("read", path, error);
  }
}

/** "Name:Value", as often as given. @throws UsageError */
export function parseHeaders(texts: readonly string[]): (readonly [name: string, value: string])[] {
  return texts.map((text) => {
    const at = text.indexOf(":");
    if (at < 1 || /[\r\n]/.test(text)) throw new UsageError(`-H is Name:Value, got '${text}'`);
    return [text.slice(0, at).trim(), text.slice(at + 1).trim()] as const;
  });
}
