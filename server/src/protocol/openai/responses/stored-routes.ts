/**
 * Calls to responses that are kept: read, stream, delete, cancel, list the input.
 * Source: OpenAI's API reference, "Get a model response" and neighbours.
 */
import { invalidRequest } from "../../api/api-error.ts";
import type { ApiReply, RouteCall } from "../../api/route.ts";
import { integer, oneOf, type Schema } from "../../api/schema.ts";
import { jsonReply } from "../../http/http-reply.ts";
import { pageOf } from "../page.ts";
import { chainOf } from "./resolve-input.ts";
import { unknownResponse } from "./response-error.ts";
import { ownerOf } from "./responses-context.ts";
import { replay } from "./store/event-log.ts";
import type { ResponseStore } from "./store/response-store.ts";
import type { StoredResponse } from "./store/stored-response.ts";

const LIMITS = { max: 100, usual: 20 };
const ORDER = oneOf("asc", "desc");
const STARTING_AFTER = integer(0);

/** @throws ApiError */
export async function getResponse(store: ResponseStore, route: RouteCall): Promise<ApiReply> {
  const response = expectResponse(store, route);
  const query = new URLSearchParams(route.call.query);
  if (query.get("stream") !== "true") return jsonReply(response.object());
  const after = numberOf(query, "starting_after", STARTING_AFTER);
  return eventsOf(response, route, after === undefined ? 0 : after + 1);
}

/** @throws ApiError when no events are kept */
export function eventsOf({ run }: StoredResponse, { call }: RouteCall, start: number): ApiReply {
  if (run === undefined) {
    const message = "This response cannot be streamed: only background responses keep their events.";
    throw invalidRequest("stream", "invalid_value", message);
  }
  return {
    status: 200,
    contentType: "text/event-stream; charset=utf-8",
    headers: ["cache-control", "no-cache"],
    chunks: replay(run.log, start, call.signal),
  };
}

/** @throws ApiError */
export async function deleteResponse(store: ResponseStore, route: RouteCall): Promise<ApiReply> {
  const { id, owner } = expectResponse(store, route);
  store.delete(owner, id);
  return jsonReply({ id, object: "response", deleted: true });
}

/** One that is over stays as it is. @throws ApiError */
export async function cancelResponse(store: ResponseStore, route: RouteCall): Promise<ApiReply> {
  const response = expectResponse(store, route);
  if (response.run === undefined) {
    throw invalidRequest(null, null, "Cannot cancel a synchronous response.");
  }
  response.run.cancel();
  store.update(response);
  return jsonReply(response.object());
}

/** @throws ApiError */
export async function listInputItems(store: ResponseStore, route: RouteCall): Promise<ApiReply> {
  const response = expectResponse(store, route);
  const earlier = chainOf(store, response.owner, response.previousId).flatMap((each) => each.items());
  const query = new URLSearchParams(route.call.query);
  const order = ORDER.read(query.get("order") ?? "desc", "order");
  const all = [...earlier, ...response.input()];
  return jsonReply(pageOf(order === "asc" ? all : all.reverse(), query, LIMITS));
}

function expectResponse(store: ResponseStore, route: RouteCall): StoredResponse {
  const id = route.params.get("id") ?? "";
  const response = store.find(ownerOf(route), id);
  if (response === undefined) throw unknownResponse(id);
  return response;
}

function numberOf(query: URLSearchParams, name: string, schema: Schema<number>): number | undefined {
  const text = query.get(name);
  return text === null ? undefined : schema.read(text === "" ? Number.NaN : Number(text), name);
}
