/**
 * A JSON API from its table of routes: method, restriction, body, handler, error. The form of errors belongs to the
 * protocol. Knows no socket.
 * Source: RFC 9110, 15.5.
 */
import { randomUUID } from "node:crypto";
import type { KeyGate } from "../../access/key-gate.ts";
import type { OpenAiRestrictedApi } from "../../core/restricted-api.ts";
import { describeThrown, ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { CallAccess, CLIENT_GONE, keyOf, refusalHeaders } from "../call-access.ts";
import type { HttpCall } from "../http/http-call.ts";
import { type HttpReply, jsonReply } from "../http/http-reply.ts";
import { withReports } from "../http/report-headers.ts";
import { ClientGone } from "../http/transport/read-body.ts";
import type { LoadReports } from "../load-report-text.ts";
import { type RestrictedGroup, Restrictions } from "../restriction.ts";
import { accessError } from "./access-error.ts";
import { ApiError } from "./api-error.ts";
import { readBytes, readJsonBody } from "./json-body.ts";
import { invalidAuth, openAiRestrictedApi } from "./openai-restriction.ts";
import type { ApiReply, ApiRoute, RouteCall } from "./route.ts";
import { RouteTable } from "./route-table.ts";

export interface JsonApiParts {
  readonly routes: readonly ApiRoute[];
  /** Unknown paths that begin so get this API's error; undefined: only its routes are its own. */
  readonly prefix?: string | undefined;
  readonly restricted: readonly RestrictedGroup[];
  /** Headers that Triton's own OpenAI front end would ask for. */
  readonly openAiRestricted?: readonly RestrictedGroup<OpenAiRestrictedApi>[] | undefined;
  readonly maxBodyBytes: number;
  readonly log: Logger;
  /** Absent: no load reports. */
  readonly load?: LoadReports | undefined;
  /** The protocol's own error for anything that was thrown. */
  readonly errorOf: (thrown: unknown, call: HttpCall) => ApiError;
  readonly errorBody: (error: ApiError, requestId: string) => unknown;
  /** Header that carries the id of the request; default: OpenAI's. */
  readonly idHeader?: string | undefined;
  /** Every call needs one of its keys; absent: calls need none. */
  readonly keys?: KeyGate | undefined;
}

const MIN_ERROR_STATUS = 400;

export class JsonApi {
  readonly routes: readonly ApiRoute[];
  readonly #parts: JsonApiParts;
  readonly #table: RouteTable;
  readonly #restrictions: Restrictions;
  readonly #openAiRestrictions: Restrictions<OpenAiRestrictedApi>;

  constructor(parts: JsonApiParts) {
    this.routes = parts.routes;
    this.#parts = parts;
    this.#table = new RouteTable(parts.routes);
    this.#restrictions = new Restrictions(parts.restricted);
    this.#openAiRestrictions = new Restrictions(parts.openAiRestricted ?? []);
  }

  /** Whether any route has this path, with any method. */
  serves({ path }: Pick<HttpCall, "path">): boolean {
    return this.#table.find(path) !== undefined;
  }

  /** Whether an unknown path is answered by this API. */
  owns({ path }: Pick<HttpCall, "path">): boolean {
    return this.#parts.prefix !== undefined && path.startsWith(this.#parts.prefix);
  }

  /** Never rejects, but for a client that left. @throws ClientGone */
  async handle(call: HttpCall): Promise<ApiReply> {
    const requestId = `req_${randomUUID().replaceAll("-", "")}`;
    call.errorType = "application/json";
    try {
      const access = this.#isHealth(call) ? undefined : this.#identify(call);
      const { route, params } = expectRoute(this.#table, call);
      this.#expectAccess(route, call);
      access?.expect(route.api, params.get("model") ?? "");
      const answer = await this.#answer(route, { call, params, requestId, access });
      const reply = withHeaders(answer, access?.answered(answer.status) ?? []);
      return this.#reported(route, this.#withId(reply, requestId), call);
    } catch (error) {
      return this.#withId(this.#refuse(error, call, requestId), requestId);
    }
  }

  /** Orchestrators probe without a key. */
  #isHealth({ method, path }: HttpCall): boolean {
    const routes = this.#table.find(path)?.routes ?? [];
    return routes.some((route) => route.api === "health" && route.method === method);
  }

  /** A path that is unknown reveals nothing to whom the API does not know. @throws AccessRefusal */
  #identify(call: HttpCall): CallAccess | undefined {
    const { keys } = this.#parts;
    return (
      keys &&
      new CallAccess(
        keys,
        keyOf((name) => call.header(name)),
        `${call.method} ${call.path}`,
      )
    );
  }

  async #answer(route: ApiRoute, made: RouteCall): Promise<ApiReply> {
    const { call, requestId } = made;
    try {
      const body = await readBody(route, call, this.#parts.maxBodyBytes);
      return await route.handle(made, body);
    } catch (error) {
      if (error instanceof ClientGone) made.access?.answered(CLIENT_GONE);
      return this.#refuse(error, call, requestId);
    }
  }

  #expectAccess({ api, path }: ApiRoute, call: HttpCall): void {
    const restricted = this.#openAiRestrictions.missingKey(openAiRestrictedApi(api, path), (name) => call.header(name));
    if (restricted !== undefined) throw invalidAuth(restricted);
    const missing = this.#restrictions.missingKey(api, (name) => call.header(name));
    if (missing === undefined) return;
    throw new ApiError({
      status: 403,
      type: "permission_error",
      code: "restricted_api",
      param: null,
      message: `This API is restricted, expecting header '${missing}'`,
    });
  }

  #reported(route: ApiRoute, reply: ApiReply, call: HttpCall): ApiReply {
    if (route.api !== "inference") return reply;
    this.#parts.load?.count(reply.status >= MIN_ERROR_STATUS);
    return withReports(reply, call, this.#parts.load);
  }

  #refuse(thrown: unknown, call: HttpCall, requestId: string): HttpReply {
    if (thrown instanceof ClientGone) throw thrown;
    const refused = accessError(thrown);
    const isKnown = refused instanceof ApiError || refused instanceof ServerError;
    if (!isKnown) this.#parts.log.error("http", `${call.method} ${call.path}: ${describeThrown(thrown)}`);
    const error = this.#parts.errorOf(refused, call);
    const reply = { ...jsonReply(this.#parts.errorBody(error, requestId)), status: error.status };
    return withHeaders(reply, refusalHeaders(thrown));
  }

  #withId(reply: ApiReply, requestId: string): ApiReply {
    const name = this.#parts.idHeader ?? "x-request-id";
    return withHeaders(reply, [name, requestId]);
  }
}

function withHeaders<Reply extends ApiReply>(reply: Reply, headers: readonly string[]): Reply {
  return headers.length === 0 ? reply : { ...reply, headers: [...(reply.headers ?? []), ...headers] };
}

/** The body of a route without a schema is read to its end and ignored. @throws ApiError @throws ClientGone */
async function readBody(route: ApiRoute, call: HttpCall, maxBytes: number): Promise<unknown> {
  const { method, body, form } = route;
  if (form !== undefined) return undefined;
  if (body !== undefined) return readJsonBody(call, maxBytes);
  if (method !== "GET") await readBytes(call, maxBytes);
  return undefined;
}

/** @throws ApiError for an unknown path, or a method that the path does not have */
function expectRoute(
  table: RouteTable,
  { method, path }: HttpCall,
): { readonly route: ApiRoute; readonly params: ReadonlyMap<string, string> } {
  const found = table.find(path);
  const route = found?.routes.find((each) => each.method === method);
  if (found !== undefined && route !== undefined) return { route, params: found.params };
  const isKnown = found !== undefined && !found.isRest;
  const message = isKnown
    ? `Not allowed to ${method} on ${path}. (HINT: Perhaps you meant to use a different HTTP method?)`
    : `Invalid URL (${method} ${path})`;
  throw new ApiError({
    status: isKnown ? 405 : 404,
    type: "invalid_request_error",
    code: isKnown ? "method_not_supported" : null,
    param: null,
    message,
  });
}
