/** The listeners of a running server: which there are, in which order they open and close. Part of the composition root. */
import { readFileSync } from "node:fs";
import type { EndpointOptions, ServerOptions } from "./config/server-options.ts";
import { MAX_GRPC_MESSAGE_BYTES } from "./core/limits.ts";
import type { ModelServer } from "./core/model-server.ts";
import { ServerError } from "./core/server-error.ts";
import { LoadMeter } from "./observe/load-report.ts";
import type { Logger } from "./observe/log.ts";
import type { MetricRegistry } from "./observe/metrics.ts";
import { createGrpcFrontend } from "./protocol/grpc/frontend.ts";
import type { GrpcOptions, GrpcTlsOptions } from "./protocol/grpc/options.ts";
import { createHttpFrontend } from "./protocol/http/frontend.ts";
import { createMetricsFrontend } from "./protocol/metrics/frontend.ts";
import { SharedMemoryRegions } from "./protocol/shared-memory.ts";

interface Listener {
  listen(): Promise<{ readonly address: string; readonly port: number }>;
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

interface Service {
  /** As the log names it. */
  readonly name: string;
  readonly protocol: "grpc" | "http" | "metrics";
  readonly endpoint: EndpointOptions;
  readonly listener: Listener;
}

export interface RunningFrontends {
  /** Filled by `listen`; only the services that are on. */
  readonly endpoints: ReadonlyMap<"grpc" | "http" | "metrics", { readonly address: string; readonly port: number }>;
  /** @throws ServerError unavailable when a port is taken; what was open is closed again */
  listen(): Promise<void>;
  /** No new requests; false when some had to be cancelled. */
  closeInference(graceMs: number): Promise<boolean>;
  closeMetrics(): Promise<void>;
  hurry(): void;
}

export function frontendsOf(
  options: ServerOptions,
  server: ModelServer,
  metrics: MetricRegistry,
  log: Logger,
): RunningFrontends {
  const endpoints = new Map<"grpc" | "http" | "metrics", { address: string; port: number }>();
  const services = createServices(options, server, metrics, log);
  const inference = services.filter(({ protocol }) => protocol !== "metrics");
  const closeAll = (which: readonly Service[], graceMs: number): Promise<unknown> =>
    Promise.all(which.map(({ listener }) => listener.close({ graceMs })));
  return {
    endpoints,
    async listen() {
      for (const [i, service] of services.entries()) {
        try {
          const bound = await service.listener.listen();
          endpoints.set(service.protocol, bound);
          log.info(
            `${service.protocol}_server`,
            `Started ${service.name} at ${service.endpoint.address}:${bound.port}`,
          );
        } catch (error) {
          await closeAll(services.slice(0, i), 0);
          throw listenError(service, error);
        }
      }
    },
    async closeInference(graceMs) {
      const startMs = performance.now();
      await closeAll(inference, graceMs);
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

function createServices(options: ServerOptions, server: ModelServer, metrics: MetricRegistry, log: Logger): Service[] {
  const services: Service[] = [];
  const load = new LoadMeter(metrics);
  const regions = new SharedMemoryRegions(options.memory.allowClientSharedMemory);
  if (options.grpc.isEnabled) {
    const listener = createGrpcFrontend({ server, options: grpcOptions(options), regions, log, load });
    services.push({ name: "GRPCInferenceService", protocol: "grpc", endpoint: options.grpc, listener });
  }
  if (options.http.isEnabled) {
    const { address, port, maxInputBytes, headerForwardPattern, accessKeys } = options.http;
    const restricted = [...accessKeys].map(([api, { header, value }]) => ({ apis: [api], key: header, value }));
    const http = createHttpFrontend({
      server,
      options: { address, port, maxInputBytes, forwardPattern: headerForwardPattern, restricted },
      regions,
      log,
      load,
    });
    const listener: Listener = { listen: () => http.listen(), close: (closing) => http.close(closing?.graceMs) };
    services.push({ name: "HTTPService", protocol: "http", endpoint: options.http, listener });
  }
  if (options.metrics.isEnabled) {
    const { address, port } = options.metrics;
    const listener = createMetricsFrontend({ render: () => metrics.render(), address, port, log });
    services.push({ name: "Metrics Service", protocol: "metrics", endpoint: options.metrics, listener });
  }
  return services;
}

function grpcOptions({ grpc }: ServerOptions): GrpcOptions {
  const { keepalive } = grpc;
  return {
    address: grpc.address,
    port: grpc.port,
    restricted: new Map([...grpc.accessKeys].map(([api, { header, value }]) => [api, { key: grpcKey(header), value }])),
    forwardPattern: grpc.headerForwardPattern,
    inferCompressionLevel: grpc.responseCompression,
    tls: tlsOptions(grpc.tls),
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
  };
}

/** The flag's parser puts Triton's prefix in front of the key; the front end does so itself. */
function grpcKey(header: string): string {
  return header.replace(/^triton-grpc-protocol-/, "");
}

/** @throws ServerError when a certificate file cannot be read */
function tlsOptions(tls: ServerOptions["grpc"]["tls"]): GrpcTlsOptions | undefined {
  if (tls === undefined) return undefined;
  const read = (path: string, flag: string): Buffer => {
    try {
      return readFileSync(path);
    } catch (error) {
      throw new ServerError("invalid_argument", `cannot read the file '${path}' of ${flag}`, { cause: error });
    }
  };
  return {
    cert: read(tls.certFile, "--grpc-server-cert"),
    key: read(tls.keyFile, "--grpc-server-key"),
    ...(tls.rootCertFile === "" ? {} : { root: read(tls.rootCertFile, "--grpc-root-cert") }),
    mutual: tls.isMutual,
  };
}

function listenError(service: Service, error: unknown): ServerError {
  const { address, port } = service.endpoint;
  const kind = { grpc: "GRPC", http: "HTTP", metrics: "Metrics" }[service.protocol];
  const taken = (error as { code?: unknown }).code === "EADDRINUSE";
  const text = taken
    ? `Socket '${address}:${port}' already in use`
    : `cannot listen at ${address}:${port}: ${String(error)}`;
  return new ServerError("unavailable", `failed to start ${kind} service: Unavailable - ${text}`, { cause: error });
}
