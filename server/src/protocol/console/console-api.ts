/**
 * `/console` and `/console/api/`: the page, and the routes that it needs beside those of KServe V2. The page itself has no
 * data and needs no key. Source: own design.
 */
import type { ModelServer } from "../../core/model-server.ts";
import { invalidArgument } from "../../core/server-error.ts";
import { textSignature } from "../../text-model/text-signature.ts";
import { ApiError } from "../api/api-error.ts";
import { JsonApi, type JsonApiParts } from "../api/json-api.ts";
import { type ApiReply, type ApiRoute, actionRoute, getRoute, postRoute, type RouteCall } from "../api/route.ts";
import { object, required, string } from "../api/schema.ts";
import { ownRows } from "../call-access.ts";
import type { HttpCall } from "../http/http-call.ts";
import { jsonReply } from "../http/http-reply.ts";
import { consoleError, consoleErrorBody } from "./console-error.ts";
import type { ConsoleHost } from "./console-host.ts";
import type { ConsoleConfigCheck, ConsoleDiagnosis, ConsoleLogs, ConsoleTraces } from "./console-types.ts";
import { liveLoad } from "./live-load.ts";
import { overview } from "./overview.ts";
import { PageFiles } from "./page-files.ts";
import { expectSameSite } from "./same-site.ts";
import { traceDetail, traceRow } from "./trace-spans.ts";

const API = "/console/api";
const MODEL = `${API}/models/{model}`;
const MAX_CONFIG_CHARS = 1024 * 1024;
const MAX_LOG_RECORDS = 500;
const CONFIG_TEXT = object<{ readonly text: string }>({ text: required(string(MAX_CONFIG_CHARS)) });
const LEVELS = ["info", "warning", "error", "verbose"] as const;
/** Zero of `performance.now()`, in ms since the Unix epoch. */
const UNIX_ORIGIN_MS = performance.timeOrigin;

export interface ConsoleApiParts extends Pick<JsonApiParts, "restricted" | "maxBodyBytes" | "log" | "keys"> {
  readonly server: ModelServer;
  readonly host: ConsoleHost;
  /** The listener is on loopback. */
  readonly isLocal: boolean;
  readonly hasOpenAi: boolean;
}

export function createConsoleApi(parts: ConsoleApiParts): JsonApi {
  return new JsonApi({
    ...parts,
    prefix: "/console/",
    routes: consoleRoutes(parts),
    errorOf: consoleError,
    errorBody: consoleErrorBody,
  });
}

export function consoleRoutes(parts: ConsoleApiParts): readonly ApiRoute[] {
  const routes = [...pageRoutes(parts), ...viewRoutes(parts), ...traceRoutes(parts), ...configRoutes(parts)];
  return routes.map((route) => ({
    ...route,
    handle: async (call: RouteCall, body: unknown): Promise<ApiReply> => {
      expectSameSite(call.call, parts.isLocal);
      return route.handle(call, body);
    },
  }));
}

/** The group `health` needs no API key: a browser cannot send one before the page has asked for it. */
function pageRoutes({ host }: ConsoleApiParts): readonly ApiRoute[] {
  const files = new PageFiles(() => host.page());
  return [
    ...["/console", "/console/"].map((path) =>
      getRoute(path, "health", "The console", ({ call }) => files.reply("index.html", call)),
    ),
    getRoute("/console/assets/{file}", "health", "A file of the console", ({ call, params }) =>
      files.reply(`assets/${params.get("file") ?? ""}`, call),
    ),
  ];
}

function viewRoutes({ server, host, hasOpenAi }: ConsoleApiParts): readonly ApiRoute[] {
  const isText = (model: string): boolean => !("reason" in textSignature(server.model(model, "")));
  return [
    getRoute(`${API}/overview`, "model-repository", "Models, versions and their states", async ({ access }) =>
      jsonReply(overview({ server, host, hasOpenAi, isText }, access)),
    ),
    getRoute(`${API}/live`, "statistics", "Counters of the models and the process", async ({ access }) =>
      jsonReply(liveLoad(ownRows(server.statistics("", ""), access), host)),
    ),
    getRoute(`${MODEL}/diagnosis`, "model-repository", "Why a model does not load", async ({ params }) => {
      const diagnosis: ConsoleDiagnosis = { findings: await host.diagnose(modelOf(params)) };
      return jsonReply(diagnosis);
    }),
    getRoute(`${API}/logs`, "logging", "Records of the log: after, level, text", async ({ call }) =>
      jsonReply(logs(host, new URLSearchParams(call.query))),
    ),
  ];
}

/** @throws ServerError for a parameter that is wrong */
function logs({ logs: ring }: ConsoleHost, query: URLSearchParams): ConsoleLogs {
  const levels = query.getAll("level").map((name) => {
    const level = LEVELS.find((each) => each === name);
    if (level === undefined) throw invalidArgument(`level: expected ${LEVELS.join(", ")}, got '${name}'`);
    return level;
  });
  const filter = { text: query.get("text") ?? "", levels: levels.length === 0 ? undefined : new Set(levels) };
  return { lastId: ring.lastId, records: ring.after(wholeNumber("after", query), filter, MAX_LOG_RECORDS) };
}

/** 0 when it is absent. @throws ServerError */
function wholeNumber(name: string, query: URLSearchParams): number {
  const text = query.get(name) ?? "0";
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(value)) throw invalidArgument(`${name}: expected a whole number, got '${text}'`);
  return value;
}

function traceRoutes({ host: { traces } }: ConsoleApiParts): readonly ApiRoute[] {
  return [
    getRoute(`${API}/traces`, "trace", "The last requests; traces those that come for 70 s", async ({ access }) => {
      traces.watch();
      const rows = traces.list().map((trace) => traceRow(trace, UNIX_ORIGIN_MS));
      const own = access === undefined ? rows : rows.filter(({ model }) => access.mayUse(model));
      const found: ConsoleTraces = { traces: own };
      return jsonReply(found);
    }),
    getRoute(`${API}/traces/{id}`, "trace", "The spans of one request", async ({ params, access }) => {
      const id = params.get("id") ?? "";
      const trace = traces.find(Number(id));
      const detail = trace && traceDetail(trace, UNIX_ORIGIN_MS);
      if (detail === undefined || access?.mayUse(detail.model) === false) throw unknownTrace(id);
      return jsonReply(detail);
    }),
  ];
}

function unknownTrace(id: string): ApiError {
  const message = `There is no trace '${id}': the server keeps those of the last 200 requests`;
  return new ApiError({ status: 404, type: "invalid_request_error", code: "not_found", param: null, message });
}

function configRoutes({ host: { editor } }: ConsoleApiParts): readonly ApiRoute[] {
  const path = `${MODEL}/config`;
  const post = (
    action: string,
    summary: string,
    handle: (model: string, text: string, call: HttpCall) => unknown,
  ): ApiRoute =>
    postRoute(`${path}/${action}`, "model-repository", summary, CONFIG_TEXT, async ({ text }, { params, call }) =>
      jsonReply((await handle(modelOf(params), text, call)) ?? {}),
    );
  return [
    getRoute(path, "model-config", "The text of a configuration", async ({ params }) =>
      jsonReply(editor.read(modelOf(params))),
    ),
    post("check", "What is wrong with a configuration", (model, text): ConsoleConfigCheck => {
      return { problems: editor.check(model, text) };
    }),
    post("try", "Load a copy of the model with a configuration", async (model, text) => {
      return { trial: await editor.tryOut(model, text) };
    }),
    post("apply", "Load the model with a configuration; its file stays", (model, text) => editor.apply(model, text)),
    actionRoute(`${path}/end-trial`, "model-repository", "Unload the copy", async ({ params }) => {
      await editor.endTrial(modelOf(params));
      return jsonReply({});
    }),
    actionRoute(`${path}/roll-back`, "model-repository", "Load the model from its file", async ({ params }) => {
      await editor.rollBack(modelOf(params));
      return jsonReply({});
    }),
  ];
}

function modelOf(params: ReadonlyMap<string, string>): string {
  return params.get("model") ?? "";
}
