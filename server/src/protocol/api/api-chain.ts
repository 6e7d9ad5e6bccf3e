/**
 * Several APIs behind one port: each path goes to the API whose route it is, all others to the inference protocol.
 * Source: own design.
 */
import type { HttpCall } from "../http/http-call.ts";
import type { ApiHandler } from "../http/transport/listener.ts";
import type { JsonApi } from "./json-api.ts";
import type { ApiReply } from "./route.ts";

/** Most requests of the inference protocol: no other API is asked. */
const INFERENCE_PREFIX = "/v2/models/";

export class ApiChain implements ApiHandler {
  readonly #apis: readonly JsonApi[];
  readonly #rest: ApiHandler;

  constructor(apis: readonly JsonApi[], rest: ApiHandler) {
    this.#apis = apis;
    this.#rest = rest;
  }

  handle(call: HttpCall): Promise<ApiReply> {
    if (call.path.startsWith(INFERENCE_PREFIX)) return this.#rest.handle(call);
    const api = this.#apis.find((each) => each.serves(call)) ?? this.#apis.find((each) => each.owns(call));
    return (api ?? this.#rest).handle(call);
  }
}
