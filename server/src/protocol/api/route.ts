/**
 * One table of routes for each JSON API: dispatch, validation, restricted access and documentation read it. A path has
 * parts in braces, which stand for one segment, `{model}`; `{model*}` stands for the rest.
 * Source: own design.
 */
import type { RestrictedApi } from "../../core/restricted-api.ts";
import type { CallAccess } from "../call-access.ts";
import type { HttpCall } from "../http/http-call.ts";
import type { HttpReply, HttpStreamReply } from "../http/http-reply.ts";
import type { JsonSchema, Schema } from "./schema.ts";

export type ApiReply = HttpReply | HttpStreamReply;

/** A request on its way through a handler. */
export interface RouteCall {
  readonly call: HttpCall;
  /** Values of the parts in braces, decoded. */
  readonly params: ReadonlyMap<string, string>;
  /** Sent back as `x-request-id`. */
  readonly requestId: string;
  /** The key of the caller; absent: calls need none. */
  readonly access?: CallAccess | undefined;
}

export interface ApiRoute {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly api: RestrictedApi;
  /** One line for people. */
  readonly summary: string;
  /** Undefined: no body. */
  readonly body: JsonSchema | undefined;
  /** The handler reads the body itself, a form of these fields (`multipart/form-data`): it may be larger than memory. */
  readonly form?: JsonSchema | undefined;
  /** @throws ApiError @throws ServerError @throws ClientGone */
  handle(route: RouteCall, body: unknown): Promise<ApiReply>;
}

export function getRoute(
  path: string,
  api: RestrictedApi,
  summary: string,
  handle: (route: RouteCall) => Promise<ApiReply>,
): ApiRoute {
  return { method: "GET", path, api, summary, body: undefined, handle };
}

/** A call without a body, or with one that means nothing. */
export function actionRoute(
  path: string,
  api: RestrictedApi,
  summary: string,
  handle: (route: RouteCall) => Promise<ApiReply>,
): ApiRoute {
  return { method: "POST", path, api, summary, body: undefined, handle };
}

/** The handler gets a body that its schema has read. */
export function postRoute<T>(
  path: string,
  api: RestrictedApi,
  summary: string,
  schema: Schema<T>,
  handle: (body: T, route: RouteCall) => Promise<ApiReply>,
): ApiRoute {
  return {
    method: "POST",
    path,
    api,
    summary,
    body: schema.json,
    handle: (route, body) => handle(schema.read(body, ""), route),
  };
}
