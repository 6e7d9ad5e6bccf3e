/**
 * Cross-origin requests of browsers: preflights, and the headers that let a page read an answer. A preflight carries no
 * key, so it is answered before any check.
 * Source: WHATWG Fetch, 3.2 "HTTP CORS protocol".
 */
import type { CorsOptions } from "../../config/flags/server-options.ts";
import type { HttpCall } from "./http-call.ts";
import { emptyReply, errorReply, type HttpReply, type HttpStreamReply } from "./http-reply.ts";
import type { ApiHandler } from "./transport/listener.ts";

type ReadHeader = (name: string) => string | undefined;

const ANY = "*";
const METHODS = "GET, POST, DELETE";
/** Longest that Chromium keeps a preflight. */
const MAX_AGE_S = "7200";
/** RFC 9110, 5.6.2, with commas between. */
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~-]+(\s*,\s*[\w!#$%&'*+.^`|~-]+)*$/;
/** Headers of answers that pages cannot read unless they are named. */
const EXPOSED: string = [
  "x-request-id",
  "request-id",
  "retry-after",
  "www-authenticate",
  ...["requests", "tokens"].flatMap((unit) =>
    ["limit", "remaining", "reset"].map((part) => `x-ratelimit-${part}-${unit}`),
  ),
  "inference-header-content-length",
  "endpoint-load-metrics",
  "mcp-session-id",
].join(", ");

export class Cors {
  readonly #origins: ReadonlySet<string>;

  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins);
  }

  /** Headers of an answer, whatever its status; a page of another origin gets none that help. */
  headers(header: ReadHeader): readonly string[] {
    const allowed = this.#allowed(header);
    // Caches must not give the answer for one origin to another.
    return allowed.length === 0 ? ["Vary", "Origin"] : [...allowed, "Access-Control-Expose-Headers", EXPOSED];
  }

  /** The answer to a preflight; undefined for any other request. */
  preflight(method: string, header: ReadHeader): HttpReply | undefined {
    if (method !== "OPTIONS" || header("access-control-request-method") === undefined) return undefined;
    const allowed = this.#allowed(header);
    if (allowed.length === 0)
      return errorReply(403, "application/json", "This origin is not allowed", ["Vary", "Origin"]);
    const wanted = header("access-control-request-headers") ?? "";
    const names = HEADER_NAMES.test(wanted) ? ["Access-Control-Allow-Headers", wanted] : [];
    const rest = ["Access-Control-Allow-Methods", METHODS, ...names, "Access-Control-Max-Age", MAX_AGE_S];
    return { ...emptyReply(204, "text/plain"), contentType: undefined, headers: [...allowed, ...rest] };
  }

  /** Credentials go to origins by name only: a server that allows every page must not act for whoever views it. */
  #allowed(header: ReadHeader): readonly string[] {
    const origin = header("origin");
    if (origin === undefined) return [];
    if (this.#origins.has(origin)) {
      return ["Access-Control-Allow-Origin", origin, "Access-Control-Allow-Credentials", "true", "Vary", "Origin"];
    }
    return this.#origins.has(ANY) ? ["Access-Control-Allow-Origin", ANY] : [];
  }
}

/** The routes of a port, for pages of other origins too. */
export class CorsHandler implements ApiHandler {
  readonly #inner: ApiHandler;
  readonly #cors: Cors;
  readonly #includesMetrics: boolean;

  constructor(inner: ApiHandler, { origins, includesMetrics }: CorsOptions) {
    this.#inner = inner;
    this.#cors = new Cors(origins);
    this.#includesMetrics = includesMetrics;
  }

  async handle(call: HttpCall): Promise<HttpReply | HttpStreamReply> {
    if (call.path === "/metrics" && !this.#includesMetrics) return await this.#inner.handle(call);
    const header: ReadHeader = (name) => call.header(name);
    const preflight = this.#cors.preflight(call.method, header);
    if (preflight !== undefined) return preflight;
    const reply = await this.#inner.handle(call);
    return { ...reply, headers: [...(reply.headers ?? []), ...this.#cors.headers(header)] };
  }
}

/** `options` without origins: the handler as it is. */
export function withCors(handler: ApiHandler, options: CorsOptions | undefined): ApiHandler {
  return options === undefined || options.origins.length === 0 ? handler : new CorsHandler(handler, options);
}
