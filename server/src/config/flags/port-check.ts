/** Refuses services with the same address, or outside of SageMaker's port range. */
import { FlagError } from "./flag-error.ts";
import type { ServerOptions } from "./server-options.ts";

interface Service {
  readonly name: string;
  readonly address: string;
  readonly port: number;
  /** Ports that all others must use. */
  readonly safeRange: readonly [low: number, high: number] | undefined;
}

type Endpoints = Pick<ServerOptions, "http" | "grpc" | "metrics" | "openai" | "sagemaker" | "vertex">;

/** @throws FlagError naming both services */
export function checkPorts(options: Endpoints): void {
  const services = enabledServices(options);
  for (const [index, service] of services.entries()) {
    const others = service.safeRange === undefined ? services.slice(index + 1) : services;
    for (const other of others) if (other !== service) checkPair(service, other);
  }
}

function checkPair(service: Service, other: Service): void {
  if (service.address !== other.address || service.address.startsWith("unix:")) return;
  const [low, high] = service.safeRange ?? [-Infinity, Infinity];
  if (other.port < low || other.port > high) {
    throw new FlagError(
      `The server cannot listen to ${other.name} requests at port ${other.port}, allowed port range is [${low}, ${high}]`,
    );
  }
  // Port 0 requests any free port, which never collides.
  if (service.port !== other.port || service.port === 0) return;
  throw new FlagError(
    `The server cannot listen to ${service.name} requests and ${other.name} requests at the same address and port ${service.address}:${service.port}`,
  );
}

function enabledServices({ http, grpc, metrics, openai, sagemaker, vertex }: Endpoints): Service[] {
  const all = [
    { name: "HTTP", ...http, safeRange: undefined },
    { name: "GRPC", ...grpc, isEnabled: grpc.isEnabled && !(http.isEnabled && http.isOnePort), safeRange: undefined },
    { name: "metrics", ...metrics, safeRange: undefined },
    ...(openai.port === undefined
      ? []
      : [
          {
            name: "OpenAI",
            isEnabled: openai.isEnabled,
            address: http.address,
            port: openai.port,
            safeRange: undefined,
          },
        ]),
    { name: "SageMaker", ...sagemaker, safeRange: sagemaker.safePortRange },
    { name: "Vertex AI", ...vertex, safeRange: undefined },
  ];
  return all.filter(({ isEnabled }) => isEnabled);
}
