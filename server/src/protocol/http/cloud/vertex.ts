/**
 * The endpoints of Vertex AI (https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements):
 * predictions of one model, health, and a header that redirects to the rest of the protocol.
 */
import type { Environment } from "../../../core/environment.ts";
import type { ModelServer } from "../../../core/model-server.ts";
import { invalidArgument, ServerError } from "../../../core/server-error.ts";
import type { HttpCall } from "../http-call.ts";
import { errorReply, type HttpReply, type HttpStreamReply } from "../http-reply.ts";
import { defaultModel } from "../infer/default-model.ts";
import { headerLengthOf, withBinaryType } from "../infer/platform-binary.ts";
import { matchRoute, type RouteName } from "../routes/router.ts";
import type { ApiHandler } from "../transport/listener.ts";
import { RewrittenCall } from "./rewritten-call.ts";

const TYPE = "application/vnd.vertex-ai-triton.binary+json";
const REDIRECT = "x-vertex-ai-triton-redirect";
/** Paths that a redirected call may reach, with their methods. */
const REACHABLE: ReadonlyMap<RouteName, "GET" | "POST"> = new Map<RouteName, "GET" | "POST">([
  ["live", "GET"],
  ["ready", "GET"],
  ["serverMetadata", "GET"],
  ["modelReady", "GET"],
  ["modelMetadata", "GET"],
  ["modelConfig", "GET"],
  ["modelStatistics", "GET"],
  ["allStatistics", "GET"],
  ["infer", "POST"],
  ["index", "POST"],
  ["sharedMemoryStatus", "GET"],
]);
const FORBIDDEN: ReadonlySet<RouteName> = new Set<RouteName>([
  "load",
  "unload",
  "sharedMemoryRegister",
  "sharedMemoryUnregister",
]);

export interface VertexOptions {
  readonly predictRoute: string;
  readonly healthRoute: string;
  /** "" = the only one. */
  readonly defaultModel: string;
}

/** @throws ServerError when the platform did not say where its calls go */
export function vertexRoutes(env: Environment): Omit<VertexOptions, "defaultModel"> {
  const { AIP_PREDICT_ROUTE: predictRoute = "", AIP_HEALTH_ROUTE: healthRoute = "" } = env;
  const missing = predictRoute === "" ? "AIP_PREDICT_ROUTE" : healthRoute === "" ? "AIP_HEALTH_ROUTE" : undefined;
  if (missing === undefined) return { predictRoute, healthRoute };
  throw invalidArgument(`${missing} is not set, which --allow-vertex-ai needs: a path such as /predict`);
}

export class VertexApi implements ApiHandler {
  readonly #inner: ApiHandler;
  readonly #server: ModelServer;
  readonly #options: VertexOptions;

  constructor(inner: ApiHandler, server: ModelServer, options: VertexOptions) {
    this.#inner = inner;
    this.#server = server;
    this.#options = options;
  }

  async handle(call: HttpCall): Promise<HttpReply | HttpStreamReply> {
    const { predictRoute, healthRoute } = this.#options;
    if (call.path === healthRoute && call.method === "GET") return this.#reach(call, "GET", "/v2/health/ready");
    if (call.path !== predictRoute || call.method !== "POST") return errorReply(400, "application/json", "Bad Request");
    const target = call.header(REDIRECT);
    return target === undefined ? await this.#predict(call) : await this.#redirect(call, `/${target}`);
  }

  #redirect(call: HttpCall, path: string): HttpReply | Promise<HttpReply | HttpStreamReply> {
    if (path === "/metrics") return this.#reach(call, "GET", path);
    const name = matchRoute(path)?.name;
    if (name !== undefined && FORBIDDEN.has(name)) return errorReply(403, "application/json", "Forbidden");
    const method = name === undefined ? undefined : REACHABLE.get(name);
    if (method === undefined) return errorReply(400, "application/json", "Bad Request");
    return this.#reach(call, method, path);
  }

  #predict(call: HttpCall): HttpReply | Promise<HttpReply | HttpStreamReply> {
    try {
      const model = defaultModel(this.#server, this.#options.defaultModel, "--vertex-ai-default-model");
      return this.#reach(call, "POST", `/v2/models/${model}/infer`);
    } catch (error) {
      return errorReply(400, "application/json", ServerError.from(error).message);
    }
  }

  async #reach(call: HttpCall, method: "GET" | "POST", path: string): Promise<HttpReply | HttpStreamReply> {
    const length = headerLengthOf(call, TYPE);
    const headers = new Map(length === undefined ? [] : [["inference-header-content-length", length]]);
    const reply = await this.#inner.handle(new RewrittenCall(call, { method, path, headers }));
    return withBinaryType(reply, TYPE);
  }
}
