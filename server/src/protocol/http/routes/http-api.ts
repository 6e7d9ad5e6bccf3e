/** From a call to a reply: route, restriction, method, handler, error (KServe V2, HTTP/REST). Knows no socket. */
import { AccessRefusal } from "../../../access/access-refusal.ts";
import type { KeyGate } from "../../../access/key-gate.ts";
import type { ModelServer } from "../../../core/model-server.ts";
import type { OpenAiRestrictedApi, RestrictedApi } from "../../../core/restricted-api.ts";
import { describeThrown, ServerError } from "../../../core/server-error.ts";
import { requestPrefix } from "../../../core/validate-request.ts";
import type { Logger } from "../../../observe/log.ts";
import { type CallAccess, CLIENT_GONE } from "../../call-access.ts";
import type { LoadReports } from "../../load-report-text.ts";
import type { RestrictedGroup } from "../../restriction.ts";
import type { SharedMemoryRegions } from "../../shared-memory.ts";
import { describeCall } from "../describe-call.ts";
import { GenerateHandler } from "../generate/generate.ts";
import type { HttpCall } from "../http-call.ts";
import { bytesReply, type ContentType, errorReply, type HttpReply, type HttpStreamReply } from "../http-reply.ts";
import { InferHandler, type InferOptions } from "../infer/infer.ts";
import { JsonInferCodec } from "../infer/infer-codec.ts";
import { RegionHandlers } from "../infer/regions.ts";
import type { JsonThreads } from "../json/json-threads.ts";
import { withReports } from "../report-headers.ts";
import { keyRefusalReply, RouteGuard } from "../route-guard.ts";
import { statusOf } from "../status.ts";
import { ClientGone } from "../transport/read-body.ts";
import { KnownRoutes } from "./known-routes.ts";
import { ManageHandlers } from "./manage.ts";
import type { RouteMatch, RouteName } from "./router.ts";
import { TraceHandlers } from "./trace-settings.ts";

export interface HttpApiOptions extends InferOptions {
  readonly restricted: readonly RestrictedGroup[];
}

export interface HttpApiParts {
  readonly server: ModelServer;
  readonly options: HttpApiOptions;
  readonly regions: SharedMemoryRegions;
  readonly log: Logger;
  /** For large JSON; absent: it is read and written by the event loop. */
  readonly threads?: JsonThreads;
  /** Absent: no route needs an API key. */
  readonly keys?: KeyGate | undefined;
  /** Headers that the metrics page asks for. */
  readonly openAiRestricted?: readonly RestrictedGroup<OpenAiRestrictedApi>[];
  /** Absent: no load reports. */
  readonly load?: LoadReports;
  /** The metrics page, for scrapers that read the port of the requests; absent: it is not served. */
  readonly metricsPage?: () => Promise<string>;
}

const MIN_ERROR_STATUS = 400;

type Reply = HttpReply | HttpStreamReply;
type Handler = (match: RouteMatch, call: HttpCall) => Reply | Promise<Reply>;

interface Route {
  readonly api: RestrictedApi;
  /** Content type of errors before the handler says otherwise. */
  readonly errorType: ContentType;
  readonly get?: Handler;
  readonly post?: Handler;
}

const LOG_LOCATION = "http_server";

export class HttpApi {
  readonly #known = new KnownRoutes();
  readonly #routes: Readonly<Record<RouteName, Route>>;
  readonly #guard: RouteGuard;
  readonly #log: Logger;
  readonly #load: LoadReports | undefined;
  readonly #metricsPage: (() => Promise<string>) | undefined;

  constructor({ server, options, regions, keys, openAiRestricted, log, load, metricsPage, threads }: HttpApiParts) {
    this.#metricsPage = metricsPage;
    this.#load = load;
    this.#routes = createRoutes(server, options, regions, threads);
    this.#guard = new RouteGuard(options.restricted, keys, openAiRestricted);
    this.#log = log;
  }

  /** Never rejects, but for a client that left. @throws ClientGone */
  async handle(call: HttpCall): Promise<Reply> {
    const match = this.#known.match(call.path);
    if (match === undefined) return (await this.#metrics(call)) ?? this.#notFound(call);
    const route = this.#routes[match.name];
    const refused = this.#guard.refusal(route.api, match.model, call);
    if (refused !== undefined) return refused;
    const handler = call.method === "GET" ? route.get : call.method === "POST" ? route.post : undefined;
    if (handler === undefined) return errorReply(405, route.errorType, "Method Not Allowed");
    call.errorType = route.errorType;
    let reply: Reply;
    try {
      if (route.api === "inference") call.access?.admit(match.model);
      const answer = handler(match, call);
      reply = answer instanceof Promise ? await answer : answer;
    } catch (error) {
      reply = this.#refuse(error, call, route.api);
    }
    const keyed = call.access === undefined ? reply : withRates(reply, call.access);
    return route.api === "inference" ? this.#reported(keyed, call) : keyed;
  }

  #reported(reply: Reply, call: HttpCall): Reply {
    this.#load?.count(reply.status >= MIN_ERROR_STATUS);
    return withReports(reply, call, this.#load);
  }

  /** Beside the routes, since no restriction of KServe V2 names it. */
  async #metrics(call: HttpCall): Promise<HttpReply | undefined> {
    if (this.#metricsPage === undefined || call.method !== "GET" || call.path !== "/metrics") return undefined;
    const refused = this.#guard.metricsRefusal(call);
    if (refused !== undefined) return refused;
    return bytesReply("text/plain; charset=utf-8", [Buffer.from(await this.#metricsPage())]);
  }

  #notFound(call: HttpCall): HttpReply {
    this.#log.verbose(1, LOG_LOCATION, () => `HTTP error: ${describeCall(call)} - 404`);
    return errorReply(404, "text/plain", "Not Found");
  }

  #refuse(thrown: unknown, call: HttpCall, api: RestrictedApi): HttpReply {
    if (thrown instanceof ClientGone) {
      call.access?.answered(CLIENT_GONE);
      throw thrown;
    }
    if (thrown instanceof AccessRefusal) return keyRefusalReply(thrown);
    const error = ServerError.from(thrown);
    if (error !== thrown) this.#log.error("http", `${call.method} ${call.path}: ${describeThrown(thrown)}`);
    if (api === "inference") {
      const id = call.inferenceId ?? "";
      this.#log.verbose(1, LOG_LOCATION, () => `${requestPrefix({ id })}Infer failed: ${error.message}`);
    }
    return errorReply(statusOf(error.code), call.errorType, error.message);
  }
}

function withRates(reply: Reply, access: CallAccess): Reply {
  const rates = access.answered(reply.status);
  return rates.length === 0 ? reply : { ...reply, headers: [...(reply.headers ?? []), ...rates] };
}

function createRoutes(
  server: ModelServer,
  options: HttpApiOptions,
  regions: SharedMemoryRegions,
  threads: JsonThreads | undefined,
): Readonly<Record<RouteName, Route>> {
  const codec = new JsonInferCodec(threads);
  const infer = new InferHandler(server, codec, options, regions);
  const generate = new GenerateHandler(server, codec, options.maxInputBytes);
  const manage = new ManageHandlers(server, options.maxInputBytes);
  const text: ContentType = "text/plain";
  const json: ContentType = "application/json";
  const memory = new RegionHandlers(regions, options.maxInputBytes);
  const trace = new TraceHandlers(server, options.maxInputBytes);
  return {
    live: { api: "health", errorType: text, get: () => manage.live() },
    ready: { api: "health", errorType: text, get: () => manage.ready() },
    modelReady: { api: "health", errorType: text, get: (match) => manage.modelReady(match) },
    serverMetadata: { api: "metadata", errorType: json, get: () => manage.serverMetadata() },
    modelMetadata: { api: "metadata", errorType: json, get: (match) => manage.modelMetadata(match) },
    modelConfig: { api: "model-config", errorType: json, get: (match) => manage.modelConfig(match) },
    modelStatistics: { api: "statistics", errorType: json, get: (match, call) => manage.statistics(match, call) },
    allStatistics: { api: "statistics", errorType: json, get: (match, call) => manage.statistics(match, call) },
    infer: { api: "inference", errorType: text, post: (match, call) => infer.handle(match.model, match.version, call) },
    generate: {
      api: "inference",
      errorType: json,
      post: (match, call) => generate.generate(match.model, match.version, call),
    },
    generateStream: {
      api: "inference",
      errorType: json,
      post: (match, call) => generate.generateStream(match.model, match.version, call),
    },
    traceSetting: {
      api: "trace",
      errorType: json,
      get: (match) => trace.read(match),
      post: (match, call) => trace.update(match, call),
    },
    logging: {
      api: "logging",
      errorType: json,
      get: () => manage.logging(),
      post: (_, call) => manage.updateLogging(call),
    },
    index: { api: "model-repository", errorType: json, post: (_, call) => manage.index(call) },
    load: { api: "model-repository", errorType: json, post: (match, call) => manage.load(match, call) },
    unload: { api: "model-repository", errorType: json, post: (match, call) => manage.unload(match, call) },
    sharedMemoryStatus: { api: "shared-memory", errorType: json, get: (match) => memory.status(match) },
    sharedMemoryRegister: {
      api: "shared-memory",
      errorType: json,
      post: (match, call) => memory.register(match, call),
    },
    sharedMemoryUnregister: { api: "shared-memory", errorType: json, post: (match) => memory.unregister(match) },
  };
}
