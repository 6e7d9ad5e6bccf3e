/** Certificates and keys of a front end, read from the PEM files that the flags name (RFC 7468). */
import { readFileSync } from "node:fs";
import type { TlsOptions } from "../config/flags/server-options.ts";
import { ServerError } from "../core/server-error.ts";

export interface TlsMaterial {
  /** PEM contents, not paths. */
  readonly cert: string | Uint8Array;
  readonly key: string | Uint8Array;
  /** Authorities of client certificates. */
  readonly root?: string | Uint8Array;
  /** A client certificate is required and verified. */
  readonly mutual: boolean;
}

/** `protocol` is how the flags begin. @throws ServerError when a file cannot be read */
export function readTls(tls: TlsOptions | undefined, protocol: "grpc" | "http"): TlsMaterial | undefined {
  if (tls === undefined) return undefined;
  const read = (path: string, flag: string): Buffer => {
    try {
      return readFileSync(path);
    } catch (error) {
      throw new ServerError("invalid_argument", `cannot read the file '${path}' of --${protocol}-${flag}`, {
        cause: error,
      });
    }
  };
  return {
    cert: read(tls.certFile, "server-cert"),
    key: read(tls.keyFile, "server-key"),
    ...(tls.rootCertFile === "" ? {} : { root: read(tls.rootCertFile, "root-cert") }),
    mutual: tls.isMutual,
  };
}
