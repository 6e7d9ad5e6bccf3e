/** The calls of the protocol over HTTP (KServe V2, HTTP/REST; Triton's extensions). */
import { decodeUtf8 } from "@nereid/wire";
import type { CallOptions } from "../call-options.ts";
import { ClientError } from "../client-error.ts";
import { contextOf, type InferCallOptions, type InferRequest } from "../infer-request.ts";
import type { InferResult } from "../infer-result.ts";
import type { InferenceApi, LoadRequest, ModelVersion } from "../inference-api.ts";
import { encodeJson, type JsonRecord, parseJson, parseJsonRecord } from "../json-document.ts";
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
import { base64Of } from "./base64.ts";
import { compressPieces } from "./compress.ts";
import { isHealthy } from "./health.ts";
import { encodeInferBody, JSON_LENGTH_HEADER, readInferResult } from "./infer-body.ts";
import { memoryPath, modelPath, repositoryPath, tracePath } from "./paths.ts";
import type { HttpResponse, Transport } from "./transport.ts";

const INDEX_PATH = "/v2/repository/index";
const LOG_PATH = "/v2/logging";
export const JSON_TYPE = { "content-type": "application/json" } as const;

export class HttpApi implements InferenceApi {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  isLive(options: CallOptions): Promise<boolean> {
    return isHealthy(this.#transport, "/v2/health/live", options);
  }

  isReady(options: CallOptions): Promise<boolean> {
    return isHealthy(this.#transport, "/v2/health/ready", options);
  }

  isModelReady({ name, version }: ModelVersion, options: CallOptions): Promise<boolean> {
    return isHealthy(this.#transport, `${modelPath(name, version)}/ready`, options);
  }

  async serverMetadata(options: CallOptions): Promise<ServerMetadata> {
    return readServerMetadata(await this.#get("/v2", options));
  }

  async modelMetadata({ name, version }: ModelVersion, options: CallOptions): Promise<ModelMetadata> {
    return readModelMetadata(await this.#get(modelPath(name, version), options, name));
  }

  modelConfig({ name, version }: ModelVersion, options: CallOptions): Promise<JsonRecord> {
    return this.#get(`${modelPath(name, version)}/config`, options, name);
  }

  async statistics(model: ModelVersion | undefined, options: CallOptions): Promise<readonly ModelStatistics[]> {
    const path = model === undefined ? "/v2/models" : modelPath(model.name, model.version);
    return readModelStatistics(await this.#get(`${path}/stats`, options, model?.name));
  }

  async infer<M extends ModelTypes>(request: InferRequest, options: InferCallOptions): Promise<InferResult<M>> {
    const path = `${modelPath(request.model, request.version)}/infer`;
    const { pieces, jsonLength } = encodeInferBody(request);
    const { compression, responseCompression, hedge } = options;
    const response = await this.#transport.read(
      {
        ...contextOf(request),
        method: "POST",
        path,
        headers: {
          "content-type": "application/octet-stream",
          [JSON_LENGTH_HEADER]: String(jsonLength),
          ...(compression === undefined ? {} : { "content-encoding": compression }),
          ...(responseCompression === undefined ? {} : { "accept-encoding": responseCompression }),
        },
        pieces: compression === undefined ? pieces : [await compressPieces(pieces, compression)],
        hedge,
        isIdempotent: options.isIdempotent === true || hedge !== undefined,
      },
      options,
    );
    return readInferResult(response, path, request);
  }

  async repositoryIndex(isReady: boolean | undefined, options: CallOptions): Promise<readonly RepositoryEntry[]> {
    const { bytes } = await this.#post(INDEX_PATH, { ready: isReady }, options);
    return readRepositoryIndex(parseJson(bytes, INDEX_PATH));
  }

  async loadModel(name: string, { config, files }: LoadRequest, options: CallOptions): Promise<void> {
    const contents = Object.entries(files ?? {}).map(([path, bytes]) => [`file:${path}`, base64Of(bytes)] as const);
    const parameters = {
      ...(config === undefined ? {} : { config: textOf(config) }),
      ...Object.fromEntries(contents),
    };
    const isEmpty = Object.keys(parameters).length === 0;
    await this.#post(repositoryPath(name, "load"), isEmpty ? {} : { parameters }, options, name);
  }

  async unloadModel(name: string, unloadDependents: boolean | undefined, options: CallOptions): Promise<void> {
    const parameters = unloadDependents === undefined ? undefined : { unload_dependents: unloadDependents };
    await this.#post(repositoryPath(name, "unload"), { parameters }, options, name);
  }

  async traceSettings(
    model: string | undefined,
    changes: TraceChanges | undefined,
    options: CallOptions,
  ): Promise<TraceSettings> {
    const path = tracePath(model);
    if (changes === undefined) return readTraceSettings(await this.#get(path, options, model));
    const texts = Object.entries(changes).map(([name, value]) => [
      name,
      typeof value === "number" ? `${value}` : value,
    ]);
    const { bytes } = await this.#post(path, Object.fromEntries(texts), options, model);
    return readTraceSettings(parseJsonRecord(bytes, path));
  }

  async logSettings(changes: LogSettings | undefined, options: CallOptions): Promise<LogSettings> {
    if (changes === undefined) return readLogSettings(await this.#get(LOG_PATH, options));
    const { bytes } = await this.#post(LOG_PATH, changes, options);
    return readLogSettings(parseJsonRecord(bytes, LOG_PATH));
  }

  async memoryStatus(
    kind: MemoryKind,
    name: string | undefined,
    options: CallOptions,
  ): Promise<readonly MemoryRegion[]> {
    const path = memoryPath(kind, name, "status");
    const { bytes } = await this.#transport.read({ method: "GET", path }, options);
    return readMemoryRegions(parseJson(bytes, path));
  }

  async registerSystemMemory({ name, key, byteSize, offset = 0 }: SystemRegion, options: CallOptions): Promise<void> {
    await this.#post(memoryPath("system", name, "register"), { key, offset, byte_size: byteSize }, options);
  }

  async registerCudaMemory(region: CudaRegion, options: CallOptions): Promise<void> {
    const { name, rawHandle, deviceId, byteSize } = region;
    const body = { raw_handle: { b64: base64Of(rawHandle) }, device_id: deviceId, byte_size: byteSize };
    await this.#post(memoryPath("cuda", name, "register"), body, options);
  }

  async unregisterMemory(kind: MemoryKind, name: string | undefined, options: CallOptions): Promise<void> {
    await this.#post(memoryPath(kind, name, "unregister"), {}, options);
  }

  async #get(path: string, options: CallOptions, model?: string): Promise<JsonRecord> {
    const { bytes } = await this.#transport.read({ method: "GET", path, model }, options);
    return parseJsonRecord(bytes, path);
  }

  #post(path: string, body: JsonRecord, options: CallOptions, model?: string): Promise<HttpResponse> {
    const pieces = [encodeJson(body)];
    return this.#transport.read({ method: "POST", path, headers: JSON_TYPE, pieces, model }, options);
  }
}

function textOf(document: JsonRecord): string {
  const bytes = encodeJson(document);
  return decodeUtf8(bytes, 0, bytes.length);
}

/** A model error after the first bytes of a response comes with status 200. @throws ClientError */
export function expectNoError(document: JsonRecord, message: string | undefined, model: string): JsonRecord {
  if (message !== undefined) throw new ClientError("server", message, { status: 200, model });
  return document;
}
