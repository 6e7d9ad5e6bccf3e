/**
 * The endpoints of Vertex AI (https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements):
 * predictions of one model, health, and a header that redirects to the rest of the protocol.
 */
import type { Environment } from "../../../core/environment.ts";
import type { ModelServer } from "../../../core/model-server.ts";
import { invalidArgument, ServerError } from "../../../core/server-error.ts";
import type { HttpCall } from "../http-call.ts";
import { errorReply, type HttpReply, type HttpStreamReply } from "../http-reply.ts";
import { headerLengthOf } from "../infer/platform-binary.ts";
import { matchRoute, type RouteName } from "../routes/router.ts";
import type { ApiHandler } from "../transport/listener.ts";
import { RewrittenCall } from "./rewritten-call.ts";

const TYPE = "application/vnd.vertex-ai-triton.binary+json";
const REDIRECT = "x-vertex-ai-triton-redirect";
/** Hides how the client would compress. */
const PLAIN = [
  ["content-encoding", undefined],
  ["accept-encoding", undefined],
] as const;
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
  // Scripts search for both names, the first of which is Triton's slip.
  if (predictRoute === "") throw missingRoute("API_PREDICT_ROUTE", "AIP_PREDICT_ROUTE to a path such as /predict");
  if (healthRoute === "") throw missingRoute("AIP_HEALTH_ROUTE", "it to a path such as /health");
  return { predictRoute, healthRoute };
}

function missingRoute(name: string, advice: string): ServerError {
  return invalidArgument(`${name} is not defined for Vertex AI endpoint: set ${advice}`);
}

export class VertexApi implements ApiHandler {
  readonly #inner: ApiHandler;
  readonly #server: ModelServer;
  readonly #options: VertexOptions;
  #model = "";

  constructor(inner: ApiHandler, server: ModelServer, options: VertexOptions) {
    this.#inner = inner;
    this.#server = server;
    this.#options = options;
  }

  /** Chooses the model of predictions, when all models are loaded. @throws ServerError when there is none to choose */
  start(): void {
    const { defaultModel } = this.#options;
    const ready = new Set(this.#server.index(true).map(({ name }) => name));
    const [only = ""] = ready;
    if (defaultModel === "" && ready.size !== 1) {
      const text =
        "Expect the model repository contains only a single model if default model is not specified" +
        ` (--vertex-ai-default-model); ${ready.size} are ready`;
      throw invalidArgument(text);
    }
    if (defaultModel !== "" && !ready.has(defaultModel)) {
      throw invalidArgument(`Expect the default model '${defaultModel}' is loaded`);
    }
    this.#model = defaultModel === "" ? only : defaultModel;
  }

  async handle(call: HttpCall): Promise<HttpReply | HttpStreamReply> {
    const { predictRoute, healthRoute } = this.#options;
    if (call.path === healthRoute && call.method === "GET") return this.#reach(call, "GET", "/v2/health/ready");
    if (call.path !== predictRoute || call.method !== "POST") return errorReply(400, "application/json", "Bad Request");
    const target = call.header(REDIRECT);
    try {
      if (target !== undefined) return await this.#redirect(call, `/${target}`);
      return await this.#reach(call, "POST", `/v2/models/${this.#model}/infer`);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      return errorReply(400, "application/json", error.message);
    }
  }

  #redirect(call: HttpCall, path: string): HttpReply | Promise<HttpReply | HttpStreamReply> {
    if (path === "/metrics") return this.#reach(call, "GET", path);
    const name = matchRoute(path)?.name;
    if (name !== undefined && FORBIDDEN.has(name)) return errorReply(403, "application/json", "Forbidden");
    const method = name === undefined ? undefined : REACHABLE.get(name);
    if (method === undefined) return errorReply(400, "application/json", "Bad Request");
    return this.#reach(call, method, path);
  }

  /** Vertex AI passes custom headers of answers on, so binary tensors come as from the HTTP port, but uncompressed. */
  #reach(call: HttpCall, method: "GET" | "POST", path: string): Promise<HttpReply | HttpStreamReply> {
    const length = headerLengthOf(call, TYPE);
    const headers = new Map<string, string | undefined>(PLAIN);
    if (length !== undefined) headers.set("inference-header-content-length", length);
    return this.#inner.handle(new RewrittenCall(call, { method, path, headers }));
  }
}
