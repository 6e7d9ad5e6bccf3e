/** The questions of `ServerApi` over gRPC (grpc_service.proto). */
import { ToolError } from "@nereid/server/files/tool-error";
import { schema } from "@nereid/wire";
import protobuf from "protobufjs/light.js";
import type { Address } from "../load/connect.ts";
import { GrpcClient, grpcFrame } from "../load/grpc-client.ts";
import {
  type ConfigMessage,
  factsOf,
  type MetadataMessage,
  type ServerApi,
  type StatisticsMessage,
  statisticsOf,
} from "./server-api.ts";

const SERVICE = "inference.GRPCInferenceService";
const UNIMPLEMENTED = /^gRPC status 12:/;

export function createGrpcApi(address: Address, metadata: readonly (readonly [string, string])[]): ServerApi {
  const root = protobuf.Root.fromJSON(schema as protobuf.INamespace);
  let client: GrpcClient | undefined;
  const ask = async (rpc: string, request: object): Promise<unknown> => {
    client ??= new GrpcClient(address, metadata);
    const { answer, failure } = await call(client, `/${SERVICE}/${rpc}`, encode(root, `${rpc}Request`, request));
    if (failure !== undefined && UNIMPLEMENTED.test(failure)) return undefined;
    if (failure !== undefined || answer === undefined) {
      const fix = "Check that the server runs, and -u: gRPC has a port of its own";
      throw new ToolError(`${address.host}:${address.port} ${rpc}: ${failure ?? "no answer"}`, { fix });
    }
    const type = root.lookupType(`inference.${rpc}Response`);
    return type.toObject(type.decode(answer), { longs: String });
  };
  return {
    async modelFacts(name, version) {
      const metadataMessage = await ask("ModelMetadata", { name, version });
      const answer = (await ask("ModelConfig", { name, version })) as { config?: ConfigMessage } | undefined;
      return factsOf(metadataMessage as MetadataMessage, answer?.config);
    },
    async statistics(name, version) {
      const answer = await ask("ModelStatistics", { name, version });
      const [first] = (answer as { model_stats?: readonly StatisticsMessage[] } | undefined)?.model_stats ?? [];
      return first === undefined ? undefined : statisticsOf(first);
    },
    async registerMemory(name, key, byteSize) {
      await ask("SystemSharedMemoryRegister", { name, key, offset: 0, byte_size: byteSize });
    },
    async unregisterMemory(name) {
      await ask("SystemSharedMemoryUnregister", { name });
    },
    close: () => client?.close(),
  };
}

function encode(root: protobuf.Root, name: string, request: object): Uint8Array {
  const type = root.lookupType(`inference.${name}`);
  return grpcFrame(type.encode(type.fromObject(request)).finish());
}

function call(
  client: GrpcClient,
  path: string,
  message: Uint8Array,
): Promise<{ readonly answer: Buffer | undefined; readonly failure: string | undefined }> {
  return new Promise((resolve) => {
    let answer: Buffer | undefined;
    client.call(path, message, {
      part(part) {
        answer = Buffer.from(part);
      },
      end: (failure) => resolve({ answer, failure }),
    });
  });
}
