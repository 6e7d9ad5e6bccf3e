/** The table of all RPCs by path (KServe V2, grpc_service.proto). */
import type { ModelServer } from "../../../core/model-server.ts";
import type { Logger } from "../../../observe/log.ts";
import type { SharedMemoryRegions } from "../../shared-memory.ts";
import { ProtoInferCodec } from "../infer/infer-codec.ts";
import { modelInferMethod } from "../infer/model-infer.ts";
import { modelStreamInferMethod } from "../infer/model-stream-infer.ts";
import { MessageTypes } from "../messages.ts";
import type { GrpcOptions } from "../options.ts";
import { describeEntries } from "./describe-methods.ts";
import { healthEntries } from "./health-methods.ts";
import type { GrpcMethod } from "./method.ts";
import { reflectionEntries } from "./reflection-methods.ts";
import { repositoryEntries } from "./repository-methods.ts";
import { settingsEntries } from "./settings-methods.ts";
import { sharedMemoryEntries } from "./shared-memory-methods.ts";
import { traceSettingEntry } from "./trace-settings.ts";
import { inferencePath } from "./unary.ts";

export function createMethods(
  server: ModelServer,
  options: GrpcOptions,
  regions: SharedMemoryRegions,
  log: Logger,
): ReadonlyMap<string, GrpcMethod> {
  const types = new MessageTypes();
  const parts = { server, codec: new ProtoInferCodec(), forwardPattern: options.forwardPattern, regions, log };
  return new Map([
    [inferencePath("ModelInfer"), modelInferMethod(parts)],
    [inferencePath("ModelStreamInfer"), modelStreamInferMethod(parts)],
    ...describeEntries(server, types),
    ...repositoryEntries(server, types),
    ...settingsEntries(server, types),
    traceSettingEntry(server, types),
    ...sharedMemoryEntries(regions, types),
    ...healthEntries(server, types),
    ...reflectionEntries(types),
  ]);
}
