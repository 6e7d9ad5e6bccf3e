/**
 * RPCs that describe the server and its models: metadata, configuration, statistics (KServe V2, gRPC; Triton's
 * statistics extension).
 */
import type { ModelServer } from "../../../core/model-server.ts";
import { ownRows } from "../../call-access.ts";
import { expectRunning } from "../expect-running.ts";
import type { MessageTypes } from "../messages.ts";
import { type MethodEntry, unaryEntry } from "./unary.ts";

interface ModelRequest {
  readonly name: string;
  readonly version: string;
}

export function describeEntries(server: ModelServer, types: MessageTypes): readonly MethodEntry[] {
  return [
    unaryEntry(types, "ServerLive", "health", () => {
      expectRunning(server);
      return { live: server.state !== "failed" };
    }),
    unaryEntry(types, "ServerReady", "health", () => {
      expectRunning(server);
      return { ready: server.ready() };
    }),
    unaryEntry<ModelRequest>(types, "ModelReady", "health", async ({ name, version }) => {
      expectRunning(server);
      return { ready: await server.modelReady(name, version) };
    }),
    unaryEntry(types, "ServerMetadata", "metadata", () => {
      return { name: server.name, version: server.version, extensions: server.extensions };
    }),
    unaryEntry<ModelRequest>(
      types,
      "ModelMetadata",
      "metadata",
      ({ name, version }) => server.modelMetadata(name, version),
      modelOf,
    ),
    unaryEntry<ModelRequest>(
      types,
      "ModelConfig",
      "model-config",
      ({ name, version }) => {
        return { config: server.model(name, version).config };
      },
      modelOf,
    ),
    unaryEntry<ModelRequest>(
      types,
      "ModelStatistics",
      "statistics",
      ({ name, version }, access) => {
        return { model_stats: ownRows(server.statistics(name, version), access) };
      },
      modelOf,
    ),
  ];
}

function modelOf({ name }: ModelRequest): string {
  return name;
}
