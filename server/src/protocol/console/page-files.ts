/**
 * The files of the page: compressed once, cached by browsers by their names, which change with their content.
 * Sources: RFC 9110, 8.4 and 12.5.3; RFC 9111, 5.2.2; RFC 8246.
 */

import type { TraceHeaders } from "../../core/request-trace.ts";
import { ApiError } from "../api/api-error.ts";
import { bytesReply, type ContentType, type HttpReply } from "../http/http-reply.ts";
import type { PageFile } from "./console-host.ts";

const TYPES: Readonly<Record<string, ContentType>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
  md: "text/plain; charset=utf-8",
};
/** Scripts and styles of this server alone; images that a user chose; no frame around the page. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const SAFETY = ["x-content-type-options", "nosniff", "referrer-policy", "no-referrer", "vary", "accept-encoding"];
const FOR_EVER = ["cache-control", "public, max-age=31536000, immutable"];
const FRESH = ["cache-control", "no-cache", "content-security-policy", POLICY];
const ACCEPTS_GZIP = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i;

export class PageFiles {
  readonly #load: () => Promise<readonly PageFile[]>;
  #files: Promise<ReadonlyMap<string, PageFile>> | undefined;

  constructor(load: () => Promise<readonly PageFile[]>) {
    this.#load = load;
  }

  /** @throws ApiError 404 @throws MissingPackageError */
  async reply(path: string, call: TraceHeaders): Promise<HttpReply> {
    this.#files ??= this.#load().then((files) => new Map(files.map((file) => [file.path, file])));
    const files = await this.#files.catch((error: unknown) => {
      this.#files = undefined; // the package may be installed by the next call
      throw error;
    });
    const file = files.get(path);
    if (file === undefined) throw unknownFile(path);
    const isZipped = ACCEPTS_GZIP.test(call.header("accept-encoding") ?? "");
    const headers = [
      ...SAFETY,
      ...(path === "index.html" ? FRESH : FOR_EVER),
      ...(isZipped ? ["content-encoding", "gzip"] : []),
    ];
    const type = TYPES[path.split(".").at(-1) ?? ""] ?? "application/octet-stream";
    return bytesReply(type, [isZipped ? file.gzipped : file.bytes], headers);
  }
}

function unknownFile(path: string): ApiError {
  const message = `The console has no file '${path}'`;
  return new ApiError({ status: 404, type: "invalid_request_error", code: "not_found", param: null, message });
}
