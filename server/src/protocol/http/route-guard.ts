/**
 * Access to the routes of KServe V2 over HTTP: an API key where one is asked for, then the header of a restricted API.
 * Cloud front ends with routes of their own ask here too.
 * Sources: Triton's inference protocols page, "Limit Endpoint Access"; RFC 6750, 3.
 */
import { AccessRefusal } from "../../access/access-refusal.ts";
import type { KeyGate } from "../../access/key-gate.ts";
import type { OpenAiRestrictedApi, RestrictedApi } from "../../core/restricted-api.ts";
import { restrictedText } from "../api/openai-restriction.ts";
import { CallAccess, keyOf, REFUSAL_STATUS, refusalHeaders } from "../call-access.ts";
import { type RestrictedGroup, Restrictions } from "../restriction.ts";
import type { HttpCall } from "./http-call.ts";
import { errorReply, type HttpReply } from "./http-reply.ts";

export class RouteGuard {
  readonly #restrictions: Restrictions;
  readonly #openAiRestrictions: Restrictions<OpenAiRestrictedApi>;
  readonly #keys: KeyGate | undefined;

  /** `keys` absent: no route needs one. `openAiRestricted` holds for the metrics page, beside the OpenAI routes. */
  constructor(
    restricted: readonly RestrictedGroup[],
    keys: KeyGate | undefined,
    openAiRestricted: readonly RestrictedGroup<OpenAiRestrictedApi>[] = [],
  ) {
    this.#openAiRestrictions = new Restrictions(openAiRestricted);
    this.#restrictions = new Restrictions(restricted);
    this.#keys = keys;
  }

  /** The refusal of a call; undefined when it may pass. `model` is "" for a route that names none. */
  refusal(api: RestrictedApi, model: string, call: HttpCall): HttpReply | undefined {
    const refused = this.keyRefusal(api, model, call);
    if (refused !== undefined) return refused;
    const missing = this.#restrictions.missingKey(api, (name) => call.header(name));
    if (missing === undefined) return undefined;
    return errorReply(403, "text/plain", `This API is restricted, expecting header '${missing}'`);
  }

  /** The refusal of the metrics page at a port of requests. A key that guards the routes guards it too. */
  metricsRefusal(call: HttpCall): HttpReply | undefined {
    const refused = this.keyRefusal("statistics", "", call);
    if (refused !== undefined) return refused;
    const missing = this.#openAiRestrictions.missingKey("metrics", (name) => call.header(name));
    return missing === undefined ? undefined : errorReply(401, "application/json", restrictedText(missing));
  }

  /** The same for the key alone. Sets the access of the call, which keeps that of an outer front end. Health needs no key. */
  keyRefusal(api: RestrictedApi, model: string, call: HttpCall): HttpReply | undefined {
    if (this.#keys === undefined || api === "health") return undefined;
    try {
      call.access ??= new CallAccess(
        this.#keys,
        keyOf((name) => call.header(name)),
        `${call.method} ${call.path}`,
      );
      call.access.expect(api, model);
      return undefined;
    } catch (error) {
      if (error instanceof AccessRefusal) return keyRefusalReply(error);
      throw error;
    }
  }
}

export function keyRefusalReply(refusal: AccessRefusal): HttpReply {
  return errorReply(REFUSAL_STATUS[refusal.reason], "application/json", refusal.message, refusalHeaders(refusal));
}
