/** The calls of the protocol over gRPC (KServe V2, grpc_service.proto; Triton's extensions). */
import type { CallOptions } from "../call-options.ts";
import { ClientError } from "../client-error.ts";
import { contextOf, type InferCallOptions, type InferRequest } from "../infer-request.ts";
import type { InferResult } from "../infer-result.ts";
import type { InferenceApi, LoadRequest, ModelVersion } from "../inference-api.ts";
import { encodeJson, type JsonData, type JsonRecord } from "../json-document.ts";
import {
  type ModelMetadata,
  type ModelStatistics,
  type RepositoryEntry,
  readLogSettings,
  readMemoryRegions,
  readModelMetadata,
  readModelStatistics,
  readRepositoryIndex,
  readServerMetadata,
  readTraceSettings,
  type ServerMetadata,
} from "../metadata.ts";
import type { ModelTypes } from "../model-types.ts";
import type {
  CudaRegion,
  LogSettings,
  MemoryKind,
  MemoryRegion,
  SystemRegion,
  TraceChanges,
  TraceSettings,
} from "../server-resources.ts";
import type { GrpcTransport } from "./grpc-transport.ts";
import { encodeInferMessage, type InferMessageReader } from "./infer-message.ts";
import { decodeMessage, encodeMessage, type FieldValue, type Message } from "./message-codec.ts";
import { frameOf } from "./message-frames.ts";

/** NOT_FOUND: a model that is unknown is not ready, as over HTTP. UNAVAILABLE: the server stops. */
const NOT_READY: ReadonlySet<number> = new Set([5, 14]);
const MEMORY = { system: "SystemSharedMemory", cuda: "CudaSharedMemory" } as const;
/** The one trace setting with a list of values. */
const TRACE_LEVEL = "trace_level";

export class GrpcApi implements InferenceApi {
  readonly #transport: GrpcTransport;
  readonly #reader: InferMessageReader;

  constructor(transport: GrpcTransport, reader: InferMessageReader) {
    this.#transport = transport;
    this.#reader = reader;
  }

  async isLive(options: CallOptions): Promise<boolean> {
    return (await this.#read("ServerLive", {}, options)).live === true;
  }

  async isReady(options: CallOptions): Promise<boolean> {
    return (await this.#read("ServerReady", {}, options)).ready === true;
  }

  async isModelReady({ name, version }: ModelVersion, options: CallOptions): Promise<boolean> {
    try {
      return (await this.#read("ModelReady", { name, version }, options, name)).ready === true;
    } catch (error) {
      if (error instanceof ClientError && NOT_READY.has(error.grpcStatus ?? -1)) return false;
      throw error;
    }
  }

  async serverMetadata(options: CallOptions): Promise<ServerMetadata> {
    return readServerMetadata(record(await this.#read("ServerMetadata", {}, options)));
  }

  async modelMetadata({ name, version }: ModelVersion, options: CallOptions): Promise<ModelMetadata> {
    return readModelMetadata(record(await this.#read("ModelMetadata", { name, version }, options, name)));
  }

  async modelConfig({ name, version }: ModelVersion, options: CallOptions): Promise<JsonRecord> {
    const { config } = record(await this.#read("ModelConfig", { name, version }, options, name));
    return (config ?? {}) as JsonRecord;
  }

  async statistics(model: ModelVersion | undefined, options: CallOptions): Promise<readonly ModelStatistics[]> {
    const { name = "", version = "" } = model ?? {};
    return readModelStatistics(record(await this.#read("ModelStatistics", { name, version }, options, model?.name)));
  }

  async infer<M extends ModelTypes>(request: InferRequest, options: InferCallOptions): Promise<InferResult<M>> {
    const { compression, hedge } = options;
    const bytes = await this.#transport.unary(
      {
        ...contextOf(request),
        method: "ModelInfer",
        pieces: encodeInferMessage(request),
        compression,
        hedge,
        isIdempotent: options.isIdempotent === true || hedge !== undefined,
      },
      options,
    );
    return this.#reader.result<M>(bytes, request);
  }

  async repositoryIndex(isReady: boolean | undefined, options: CallOptions): Promise<readonly RepositoryEntry[]> {
    const { models } = record(await this.#read("RepositoryIndex", { ready: isReady }, options));
    return readRepositoryIndex(models ?? []);
  }

  async loadModel(name: string, { config, files = {} }: LoadRequest, options: CallOptions): Promise<void> {
    const contents = Object.entries(files).map(([path, bytes]) => [`file:${path}`, { bytes_param: bytes }] as const);
    const parameters: Message = {
      ...(config === undefined ? {} : { config: { string_param: textOf(config) } }),
      ...Object.fromEntries(contents),
    };
    await this.#change("RepositoryModelLoad", { model_name: name, parameters }, options, name);
  }

  async unloadModel(name: string, unloadDependents: boolean | undefined, options: CallOptions): Promise<void> {
    const parameters: Message =
      unloadDependents === undefined ? {} : { unload_dependents: { bool_param: unloadDependents } };
    await this.#change("RepositoryModelUnload", { model_name: name, parameters }, options, name);
  }

  async traceSettings(
    model: string | undefined,
    changes: TraceChanges | undefined,
    options: CallOptions,
  ): Promise<TraceSettings> {
    const settings = Object.entries(changes ?? {}).map(
      ([name, value]) => [name, { value: settingTexts(value) }] as const,
    );
    const request = { model_name: model, settings: Object.fromEntries(settings) };
    const response = record(await this.#change("TraceSetting", request, options, model));
    const values = Object.entries(response.settings as Readonly<Record<string, { readonly value: readonly string[] }>>);
    const texts = values.map(([name, { value }]) => [name, name === TRACE_LEVEL ? value : (value[0] ?? "")] as const);
    return readTraceSettings(Object.fromEntries(texts));
  }

  async logSettings(changes: LogSettings | undefined, options: CallOptions): Promise<LogSettings> {
    const settings = Object.entries(changes ?? {}).map(([name, value]) => [name, logValue(value)] as const);
    const response = record(await this.#change("LogSettings", { settings: Object.fromEntries(settings) }, options));
    const values = Object.entries(response.settings as Readonly<Record<string, JsonRecord>>);
    return readLogSettings(Object.fromEntries(values.map(([name, choice]) => [name, Object.values(choice)[0]])));
  }

  async memoryStatus(
    kind: MemoryKind,
    name: string | undefined,
    options: CallOptions,
  ): Promise<readonly MemoryRegion[]> {
    const { regions } = record(await this.#read(`${MEMORY[kind]}Status`, { name }, options));
    return readMemoryRegions(Object.values((regions ?? {}) as JsonRecord) as readonly JsonData[]);
  }

  async registerSystemMemory({ name, key, byteSize, offset = 0 }: SystemRegion, options: CallOptions): Promise<void> {
    await this.#change("SystemSharedMemoryRegister", { name, key, offset, byte_size: byteSize }, options);
  }

  async registerCudaMemory(region: CudaRegion, options: CallOptions): Promise<void> {
    const { name, rawHandle, deviceId, byteSize } = region;
    const request = { name, raw_handle: rawHandle, device_id: deviceId, byte_size: byteSize };
    await this.#change("CudaSharedMemoryRegister", request, options);
  }

  async unregisterMemory(kind: MemoryKind, name: string | undefined, options: CallOptions): Promise<void> {
    await this.#change(`${MEMORY[kind]}Unregister`, { name }, options);
  }

  #read(method: string, request: Message, options: CallOptions, model?: string): Promise<Message> {
    return this.#unary(method, request, options, model, true);
  }

  #change(method: string, request: Message, options: CallOptions, model?: string): Promise<Message> {
    return this.#unary(method, request, options, model, false);
  }

  async #unary(
    method: string,
    request: Message,
    options: CallOptions,
    model: string | undefined,
    isIdempotent: boolean,
  ): Promise<Message> {
    const pieces = [frameOf(encodeMessage(`${method}Request`, request))];
    const bytes = await this.#transport.unary({ method, pieces, model, isIdempotent }, options);
    return decodeMessage(`${method}Response`, bytes);
  }
}

/** Messages of these calls have no bytes in their responses. */
function record(message: Message): JsonRecord {
  return message as JsonRecord;
}

/** An empty list returns a setting to the server's. */
function settingTexts(value: TraceChanges[string]): readonly string[] {
  if (value === null) return [];
  return Array.isArray(value) ? value : [String(value)];
}

function logValue(value: LogSettings[string]): Readonly<Record<string, FieldValue>> {
  if (typeof value === "boolean") return { bool_param: value };
  return typeof value === "number" ? { uint32_param: value } : { string_param: value };
}

function textOf(document: JsonRecord): string {
  return new TextDecoder().decode(encodeJson(document));
}
