/**
 * One request of a batch, through the same route that serves live calls, with the API key of its owner and below their
 * priority. Source: own design.
 */
import { randomUUID } from "node:crypto";
import { AccessRefusal } from "../../../access/access-refusal.ts";
import type { KeyGate } from "../../../access/key-gate.ts";
import { accessError } from "../../api/access-error.ts";
import { unsupportedValue } from "../../api/api-error.ts";
import type { ApiRoute } from "../../api/route.ts";
import type { JsonObject } from "../../api/schema.ts";
import { CallAccess } from "../../call-access.ts";
import type { HttpCall } from "../../http/http-call.ts";
import type { HttpReply } from "../../http/http-reply.ts";
import type { OpenAiForm } from "../openai-form.ts";
import type { Endpoint } from "./batch.ts";

export interface RouteQuestion {
  readonly owner: string;
  readonly endpoint: Endpoint;
  readonly body: JsonObject;
  readonly signal: AbortSignal;
}

export interface RouteAnswer {
  readonly status: number;
  readonly requestId: string;
  /** JSON. */
  readonly body: string;
  /** The rate of the key is used up for so long. */
  readonly retryAfterMs: number | undefined;
}

/** Never rejects: errors are answers. */
export type AskRoute = (question: RouteQuestion) => Promise<RouteAnswer>;

/** As the service tier `flex`: level 3 of a queue that has levels. */
const LOW_LEVEL = 3;
/** vLLM's `priority`: above 0 is behind the others. */
const LOW_PRIORITY = 1;
const DEFAULT_RETRY_MS = 1000;
const NO_PARAMS: ReadonlyMap<string, string> = new Map();

export function askRoutes(routes: readonly ApiRoute[], form: OpenAiForm, keys: KeyGate | undefined): AskRoute {
  const byPath = new Map(routes.filter(({ method }) => method === "POST").map((route) => [route.path, route]));
  return async ({ owner, endpoint, body, signal }) => {
    const requestId = `req_${randomUUID().replaceAll("-", "")}`;
    const call = batchCall(endpoint, signal);
    let access: CallAccess | undefined;
    try {
      const route = byPath.get(endpoint);
      if (route === undefined) throw new Error(`no route ${endpoint}`);
      expectWhole(body);
      access = keys && new BatchAccess(keys, undefined, `POST ${endpoint}`, keys.accountOf(owner));
      access?.expect(route.api, "");
      const reply = await route.handle(
        { call, params: NO_PARAMS, requestId, access },
        { ...body, priority: LOW_PRIORITY },
      );
      if ("chunks" in reply) throw new Error(`${endpoint} streams`);
      access?.answered(reply.status);
      return { status: reply.status, requestId, body: textOf(reply), retryAfterMs: undefined };
    } catch (thrown) {
      const error = form.errorOf(accessError(thrown), call);
      access?.answered(error.status);
      const text = JSON.stringify(form.errorBody(error));
      return { status: error.status, requestId, body: text, retryAfterMs: retryAfterMs(thrown) };
    }
  };
}

class BatchAccess extends CallAccess {
  override get priority(): number {
    return LOW_LEVEL;
  }
}

/** @throws ApiError for a request whose answer is no single object */
function expectWhole(body: JsonObject): void {
  for (const name of ["stream", "background"]) {
    if (body[name] === true) throw unsupportedValue(name, "Requests of a batch cannot use it.");
  }
}

function retryAfterMs(thrown: unknown): number | undefined {
  if (!(thrown instanceof AccessRefusal) || thrown.reason !== "limited") return undefined;
  return thrown.retryAfterMs ?? DEFAULT_RETRY_MS;
}

function textOf({ body }: HttpReply): string {
  return Buffer.concat(body).toString("utf8");
}

/** A call that no socket carries. */
function batchCall(path: string, signal: AbortSignal): HttpCall {
  const empty = Buffer.alloc(0);
  return {
    method: "POST",
    path,
    query: "",
    rawHeaders: [],
    arrivalMs: performance.now(),
    errorType: "application/json",
    trace: undefined,
    signal,
    get isCancelled() {
      return signal.aborted;
    },
    header: () => undefined,
    body: async () => ({ bytes: empty, size: 0 }),
    async *stream() {
      yield empty;
    },
    hold: () => undefined,
    giveBack: () => undefined,
  };
}
