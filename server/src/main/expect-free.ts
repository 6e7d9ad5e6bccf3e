/** Whether the ports of a server are free, and the errors of those that are not. Part of the composition root. */
import { createServer, type Server } from "node:net";
import type { EndpointOptions, ServerOptions } from "../config/flags/server-options.ts";
import { ERROR_CODE_NAMES, ServerError } from "../core/server-error.ts";
import { bind, unixPath } from "../protocol/bind.ts";
import type { Protocol } from "./listener-access.ts";

export interface ListeningPlace {
  readonly protocol: Protocol;
  readonly endpoint: EndpointOptions;
}

/** Ports that are shared stay as they are: connections meant for others would come. */
function isShared({ http, grpc }: Pick<ServerOptions, "http" | "grpc">, protocol: Protocol): boolean {
  return (protocol === "http" && http.reusePort) || (protocol === "grpc" && grpc.reusePort);
}

/** Holds all of them at once, so that places that overlap are found too. @throws ServerError unavailable when one is taken */
export async function expectFree(
  options: Pick<ServerOptions, "http" | "grpc">,
  services: readonly ListeningPlace[],
): Promise<void> {
  const held: Server[] = [];
  try {
    for (const service of services.filter(({ protocol }) => !isShared(options, protocol))) {
      const probe = createServer((socket) => socket.destroy());
      held.push(probe);
      await bind(probe, service.endpoint).catch((error: unknown) => {
        throw listenError(service, error);
      });
    }
  } finally {
    await Promise.all(held.map((probe) => new Promise((resolve) => probe.close(resolve))));
  }
}

export function listenError(service: ListeningPlace, error: unknown): ServerError {
  const place = placeOf(service.endpoint);
  const kind = {
    grpc: "GRPC",
    http: "HTTP",
    openai: "OpenAI",
    sagemaker: "Sagemaker",
    vertex_ai: "Vertex AI",
    metrics: "Metrics",
  }[service.protocol];
  if (error instanceof ServerError) {
    const text = `failed to start ${kind} service: ${ERROR_CODE_NAMES[error.code]} - ${error.message}`;
    return new ServerError(error.code, text, { cause: error });
  }
  const { code } = error as { readonly code?: unknown };
  // The first line is Triton's.
  const text =
    code === "EADDRINUSE"
      ? `Socket '${place}' already in use\nEnd what listens there, or choose another place with ${flagOf(service, true)}`
      : `cannot listen at ${place}: ${String(error)} (${flagOf(service, code === "EACCES")})`;
  return new ServerError("unavailable", `failed to start ${kind} service: Unavailable - ${text}`, { cause: error });
}

function flagOf({ protocol, endpoint }: ListeningPlace, isOfPort: boolean): string {
  const hasPort = isOfPort && unixPath(endpoint.address) === undefined;
  return `--${protocol.replace("_", "-")}-${hasPort ? "port" : "address"}`;
}

export function placeOf({ address, port }: Pick<EndpointOptions, "address" | "port">): string {
  return unixPath(address) === undefined ? `${address}:${port}` : address;
}
