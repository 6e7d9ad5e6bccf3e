/** The listeners of a running server: which there are, in which order they open and close. Part of the composition root. */

import type { Socket } from "node:net";
import { availableParallelism } from "node:os";
import process from "node:process";
import type { KeyGate } from "../access/key-gate.ts";
import type { EndpointOptions, ServerOptions } from "../config/flags/server-options.ts";
import type { Environment } from "../core/environment.ts";
import { MAX_GRPC_MESSAGE_BYTES } from "../core/limits.ts";
import type { ModelServer } from "../core/model-server.ts";
import { LoadMeter } from "../observe/load-report.ts";
import type { Logger } from "../observe/log.ts";
import type { MetricRegistry } from "../observe/metrics.ts";
import { type OpenWork, openWorkFamilies } from "../observe/open-work.ts";
import { ApiChain } from "../protocol/api/api-chain.ts";
import type { JsonApi } from "../protocol/api/json-api.ts";
import { canReusePort } from "../protocol/bind.ts";
import { type BodyBudget, defaultBodyBudget } from "../protocol/body-budget.ts";
import type { ConsoleHost } from "../protocol/console/console-host.ts";
import { createGrpcFrontend } from "../protocol/grpc/frontend.ts";
import type { GrpcOptions } from "../protocol/grpc/options.ts";
import { SAGEMAKER_MODELS, SagemakerApi, sagemakerSettings } from "../protocol/http/cloud/sagemaker.ts";
import { VertexApi, vertexRoutes } from "../protocol/http/cloud/vertex.ts";
import { withCors } from "../protocol/http/cors.ts";
import {
  createApiFrontend,
  createHttpFrontend,
  type HttpFrontend,
  type HttpFrontendDependencies,
} from "../protocol/http/frontend.ts";
import { bytesReply, errorReply } from "../protocol/http/http-reply.ts";
import { JsonThreads } from "../protocol/http/json/json-threads.ts";
import { RouteGuard } from "../protocol/http/route-guard.ts";
import { HttpApi } from "../protocol/http/routes/http-api.ts";
import type { ApiHandler } from "../protocol/http/transport/listener.ts";
import type { McpModule } from "../protocol/mcp/mcp-endpoint.ts";
import { createMetricsFrontend } from "../protocol/metrics/frontend.ts";
import { PeerConnections } from "../protocol/peer-connections.ts";
import { SharedMemoryRegions } from "../protocol/shared-memory.ts";
import { readTls } from "../protocol/tls-files.ts";
import { consoleApis } from "./console/console-apis.ts";
import { expectFree, listenError, placeOf } from "./expect-free.ts";
import { deviceRegions } from "./gpus.ts";
import { keysFor, metricsCors, openAiRestrictedGroups, type Protocol, restrictedGroups } from "./listener-access.ts";
import { createApis } from "./text-apis.ts";

interface Listener {
  listen(): Promise<{ readonly address: string; readonly port: number }>;
  close(options?: Closing): Promise<void>;
}

export interface Closing {
  readonly graceMs?: number;
  /** Another process takes the connections that come from now on: nobody is refused, and clients are asked to come again. */
  readonly isHandedOver?: boolean;
}

interface Service {
  /** As the log names it. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly endpoint: EndpointOptions;
  readonly listener: Listener;
  /** Called when all models are loaded, before the port opens. @throws ServerError: the server does not start */
  readonly start?: (() => void) | undefined;
}

export interface RunningFrontends {
  /** Filled by `listen`; only the services that are on. */
  readonly endpoints: ReadonlyMap<Protocol, { readonly address: string; readonly port: number }>;
  /** Open requests of clients, by protocol. */
  readonly open: ReadonlyMap<string, OpenWork>;
  /** Looks at every port for a moment; nobody is served yet. @throws ServerError unavailable when one is taken */
  expectFree(): Promise<void>;
  /** @throws ServerError unavailable when a port is taken; what was open is closed again */
  listen(): Promise<void>;
  /** No new requests; false when some had to be cancelled. */
  closeInference(graceMs: number, isHandedOver?: boolean): Promise<boolean>;
  closeMetrics(): Promise<void>;
  hurry(): void;
}

export interface FrontendExtras {
  /** Absent: calls need no API key. */
  readonly keys?: KeyGate | undefined;
  /** Absent: models are no tools. */
  readonly mcp?: McpModule | undefined;
  /** Absent: there is no console. */
  readonly console?: ConsoleHost | undefined;
  readonly env?: Environment;
  /** The folder of SageMaker's models; absent: its own. */
  readonly sagemakerModels?: string;
  /** Limits of connections, over all listeners; absent: those of this machine. */
  readonly peers?: PeerConnections;
}

export function frontendsOf(
  options: ServerOptions,
  server: ModelServer,
  metrics: MetricRegistry,
  log: Logger,
  { keys, mcp, console, env = process.env, sagemakerModels, peers = new PeerConnections() }: FrontendExtras = {},
): RunningFrontends {
  const endpoints = new Map<Protocol, { address: string; port: number }>();
  const open = new Map<string, OpenWork>();
  const closers: (() => Promise<void>)[] = [];
  const services = createServices(
    { options, server, metrics, log, env, open, keys, mcp, console, sagemakerModels, peers },
    closers,
  );
  const inference = services.filter(({ protocol }) => protocol !== "metrics");
  const closeAll = (which: readonly Service[], graceMs: number, isHandedOver = false): Promise<unknown> =>
    Promise.all(which.map(({ listener }) => listener.close({ graceMs, isHandedOver })));
  return {
    endpoints,
    open,
    expectFree: () => expectFree(options, services),
    async listen() {
      for (const [i, service] of services.entries()) {
        try {
          service.start?.();
          const bound = await service.listener.listen();
          endpoints.set(service.protocol, bound);
          log.info(
            `${service.protocol}_server`,
            `Started ${service.name} at ${placeOf({ ...service.endpoint, port: bound.port })}`,
          );
        } catch (error) {
          await closeAll(services.slice(0, i), 0);
          throw listenError(service, error);
        }
      }
    },
    async closeInference(graceMs, isHandedOver) {
      const startMs = performance.now();
      const streams = closers.map((close) => close());
      await Promise.all([closeAll(inference, graceMs, isHandedOver), ...streams]);
      return performance.now() - startMs < graceMs;
    },
    async closeMetrics() {
      await closeAll(
        services.filter(({ protocol }) => protocol === "metrics"),
        0,
      );
    },
    hurry: () => void closeAll(inference, 0),
  };
}

interface Parts {
  readonly options: ServerOptions;
  readonly server: ModelServer;
  readonly metrics: MetricRegistry;
  readonly log: Logger;
  readonly load: LoadMeter;
  /** APIs beside the inference protocol. */
  readonly apis: readonly JsonApi[];
  readonly threads: JsonThreads;
  /** One for all front ends. */
  readonly bodyBudget: BodyBudget;
  readonly peers: PeerConnections;
  readonly regions: SharedMemoryRegions;
  /** Open requests of clients, by protocol. */
  readonly open: Map<string, OpenWork>;
  readonly env: Environment;
  /** Absent: calls need no API key. */
  readonly keys: KeyGate | undefined;
  readonly mcp: McpModule | undefined;
  readonly console: ConsoleHost | undefined;
  /** The folder of SageMaker's models; absent: its own. */
  readonly sagemakerModels?: string | undefined;
}

/** `closers` end streams that would stay open for ever. */
function createServices(
  { options, ...rest }: Omit<Parts, "load" | "regions" | "threads" | "apis" | "bodyBudget">,
  closers: (() => Promise<void>)[],
): Service[] {
  const { metrics, log, open } = rest;
  const regions = new SharedMemoryRegions(options.memory.allowClientSharedMemory, deviceRegions(log));
  if (options.metrics.openWork) for (const family of openWorkFamilies(open)) metrics.register(family);
  const load = new LoadMeter(metrics);
  const apis = createApis({ options, ...rest }, load, closers);
  const parts: Parts = {
    options,
    ...rest,
    regions,
    load,
    apis,
    threads: jsonThreads(options),
    bodyBudget: defaultBodyBudget(),
  };
  const services =
    options.http.isEnabled && options.grpc.isEnabled && options.http.isOnePort
      ? onePortServices(parts)
      : ownPortServices(parts);
  services.push(...openAiServices(parts), ...cloudServices(parts));
  if (options.metrics.isEnabled && options.metrics.hasOwnPort) {
    const { address, port } = options.metrics;
    const listener = createMetricsFrontend({
      render: () => metrics.page(),
      address,
      port,
      log,
      peers: parts.peers,
      cors: metricsCors(options),
    });
    services.push({ name: "Metrics Service", protocol: "metrics", endpoint: options.metrics, listener });
  }
  if (!canReusePort() && [options.http, options.grpc].some(({ isEnabled, reusePort }) => isEnabled && reusePort)) {
    log.warn("server", "--reuse-http-port and --reuse-grpc-port need Node.js 22.12 or later: the ports are not shared");
  }
  return services;
}

/** As many as are asked for, but no more than there are processors; with one of them a thread would help nobody. */
function jsonThreads({ http }: ServerOptions): JsonThreads {
  const numProcessors = availableParallelism();
  return new JsonThreads(numProcessors === 1 ? 0 : Math.min(http.threadCount, numProcessors));
}

function ownPortServices(parts: Parts): Service[] {
  const { http, grpc } = parts.options;
  const services: Service[] = [];
  if (grpc.isEnabled) {
    const listener = createGrpcFrontend({
      ...parts,
      keys: keysFor("grpc", parts),
      options: grpcOptions(parts),
    });
    parts.open.set("grpc", listener);
    services.push({ name: "GRPCInferenceService", protocol: "grpc", endpoint: grpc, listener });
  }
  if (http.isEnabled) {
    const front = createHttpFrontend(httpParts(parts));
    parts.open.set("http", front);
    services.push(httpService(parts, front));
  }
  return services;
}

/** The HTTP listener takes every connection; those of HTTP/2 go to the gRPC front end, which gives back what is no gRPC. */
function onePortServices(parts: Parts): Service[] {
  const ofHttp = httpParts(parts);
  const grpc = createGrpcFrontend({
    ...parts,
    keys: keysFor("grpc", parts),
    options: { ...grpcOptions(parts), tls: undefined },
    acceptPlain: (stream, onClosed) => http.acceptStream(stream, onClosed),
  });
  const options = { ...ofHttp.options, acceptHttp2: (socket: Socket) => grpc.accept(socket) };
  const http = createHttpFrontend({ ...ofHttp, options });
  parts.open.set("http", http);
  parts.open.set("grpc", grpc);
  const service = httpService(parts, http, "HTTPService and GRPCInferenceService");
  const close: Listener["close"] = async (closing) => {
    await Promise.all([grpc.close(closing), service.listener.close(closing)]);
  };
  return [{ ...service, listener: { listen: service.listener.listen, close } }];
}

function openAiServices({ options, apis, metrics, log, open, bodyBudget, peers }: Parts): Service[] {
  const { port } = options.openai;
  if (port === undefined || apis.length === 0) return [];
  const { address, tls, maxConnectionAgeMs } = options.http;
  const endpoint = { isEnabled: true, address, port };
  const hasMetrics = options.metrics.isEnabled && options.openai.frontend === "triton";
  const guard = new RouteGuard([], undefined, openAiRestrictedGroups(options));
  const rest: ApiHandler = {
    async handle(call) {
      if (!hasMetrics || call.path !== "/metrics") return errorReply(404, "text/plain", "Not Found");
      const refused = guard.metricsRefusal(call);
      if (refused !== undefined) return refused;
      return bytesReply("text/plain; charset=utf-8", [Buffer.from(await metrics.page())]);
    },
  };
  const place = { address, port, tls: readTls(tls, "http"), maxConnectionAgeMs, bodyBudget, peers };
  const front = createApiFrontend(withCors(new ApiChain(apis, rest), options.http.cors), place, log);
  open.set("openai", front);
  return [{ name: "OpenAI Service", protocol: "openai", endpoint, listener: listenerOf(front) }];
}

/** Front ends of clouds: the same protocol behind other paths, each on a port of its own. */
function cloudServices(parts: Parts): Service[] {
  const { sagemaker, vertex } = parts.options;
  const services: Service[] = [];
  const add = (
    protocol: "sagemaker" | "vertex_ai",
    name: string,
    endpoint: EndpointOptions,
    wrap: (api: HttpApi, guard: RouteGuard) => ApiHandler & { start?: () => void },
  ): void => {
    const ofHttp = { ...httpParts(parts), ...metricsPageOf(parts), keys: keysFor(protocol, parts) };
    const place = { address: endpoint.address, port: endpoint.port, bodyBudget: parts.bodyBudget, peers: parts.peers };
    const api = wrap(new HttpApi(ofHttp), new RouteGuard(ofHttp.options.restricted, ofHttp.keys));
    const logName = protocol === "sagemaker" ? "SageMaker" : "Vertex AI";
    const listener = listenerOf(createApiFrontend(api, place, parts.log, logName));
    services.push({ name, protocol, endpoint, listener, start: () => api.start?.() });
  };
  if (sagemaker.isEnabled) {
    const { repository, http } = parts.options;
    const roots = { repositories: repository.paths, sagemaker: parts.sagemakerModels ?? SAGEMAKER_MODELS };
    const settings = { ...sagemakerSettings(parts.env), roots, maxInputBytes: http.maxInputBytes };
    add(
      "sagemaker",
      "Sagemaker HTTPService",
      sagemaker,
      (inner, guard) => new SagemakerApi({ inner, guard, server: parts.server, log: parts.log }, settings),
    );
  }
  if (vertex.isEnabled) {
    const settings = { ...vertexRoutes(parts.env), defaultModel: vertex.defaultModel };
    add("vertex_ai", "Vertex AI HTTPService", vertex, (api) => new VertexApi(api, parts.server, settings));
  }
  return services;
}

function httpParts({ options, ...parts }: Parts): HttpFrontendDependencies & Pick<Parts, "regions"> {
  const { address, port, reusePort, maxInputBytes, headerForwardPattern, accessKeys, maxConnectionAgeMs } =
    options.http;
  const restricted = restrictedGroups(accessKeys);
  const tls = readTls(options.http.tls, "http");
  const place = { address, port, reusePort, tls, maxConnectionAgeMs, bodyBudget: parts.bodyBudget, peers: parts.peers };
  return {
    ...parts,
    ...(options.http.isOnePort ? metricsPageOf({ options, ...parts }) : {}),
    apis: [...parts.apis, ...consoleApis({ options, ...parts })],
    cors: options.http.cors,
    openAiRestricted: openAiRestrictedGroups(options),
    keys: keysFor("http", { options, keys: parts.keys }),
    options: { ...place, maxInputBytes, forwardPattern: headerForwardPattern, restricted },
  };
}

function metricsPageOf({ options, metrics }: Parts): Pick<HttpFrontendDependencies, "metricsPage"> {
  return options.metrics.isEnabled ? { metricsPage: () => metrics.page() } : {};
}

function httpService({ options }: Parts, http: HttpFrontend, name = "HTTPService"): Service {
  return { name, protocol: "http", endpoint: options.http, listener: listenerOf(http) };
}

function listenerOf(front: HttpFrontend): Listener {
  return { listen: () => front.listen(), close: (closing) => front.close(closing?.graceMs, closing?.isHandedOver) };
}

function grpcOptions({ options, bodyBudget, peers }: Parts): GrpcOptions {
  const { grpc } = options;
  const { keepalive } = grpc;
  return {
    address: grpc.address,
    port: grpc.port,
    restricted: restrictedGroups(grpc.accessKeys),
    forwardPattern: grpc.headerForwardPattern,
    inferCompressionLevel: grpc.responseCompression,
    reusePort: grpc.reusePort,
    tls: readTls(grpc.tls, "grpc"),
    keepalive: {
      timeMs: keepalive.timeMs,
      timeoutMs: keepalive.timeoutMs,
      permitWithoutCalls: keepalive.permitWithoutCalls,
      minRecvPingIntervalMs: keepalive.minPingIntervalWithoutDataMs,
      maxPingStrikes: keepalive.maxPingStrikes,
      maxConnectionAgeMs: keepalive.maxConnectionAgeMs,
      maxConnectionAgeGraceMs: keepalive.maxConnectionAgeGraceMs,
    },
    maxMessageBytes: MAX_GRPC_MESSAGE_BYTES,
    bodyBudget,
    peers,
  };
}
