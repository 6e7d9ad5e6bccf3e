/**
 * One model on a server: its metadata, inference (Open Inference Protocol, "Inference"), and Triton's generate
 * extension.
 */
import { JsonLimitError, JsonSyntaxError, readV2Response, V2ResponseError } from "@nereid/wire";
import { ClientError } from "./client-error.ts";
import type { CallOptions } from "./deadline.ts";
import { isHealthy } from "./health.ts";
import { encodeInferRequest, type InferOptions } from "./infer-request.ts";
import { InferResult } from "./infer-result.ts";
import { encodeJson, type JsonRecord, parseJsonRecord } from "./json-document.ts";
import { type ModelMetadata, readModelMetadata, readModelStatistics } from "./metadata.ts";
import { modelPath } from "./paths.ts";
import { errorIn, type HttpResponse, type Transport } from "./transport.ts";

const JSON_LENGTH_HEADER = "inference-header-content-length";
const JSON_TYPE = { "content-type": "application/json" };

export class ModelHandle {
  readonly name: string;
  /** Undefined: the server chooses. */
  readonly version: string | undefined;
  readonly #transport: Transport;
  readonly #path: string;

  /** @throws RangeError for a name or version that no path can hold */
  constructor(transport: Transport, name: string, version?: string | number) {
    this.#transport = transport;
    this.name = name;
    this.version = version === undefined ? undefined : String(version);
    this.#path = modelPath(name, version);
  }

  isReady(options: CallOptions = {}): Promise<boolean> {
    return isHealthy(this.#transport, `${this.#path}/ready`, options);
  }

  async metadata(options: CallOptions = {}): Promise<ModelMetadata> {
    return readModelMetadata(await this.#get("", options));
  }

  /** The completed model configuration, with the field names of `config.pbtxt` (Triton's model configuration extension). */
  config(options: CallOptions = {}): Promise<JsonRecord> {
    return this.#get("/config", options);
  }

  /** Statistics, one record for each version (Triton's statistics extension). Large counters are bigints. */
  async statistics(options: CallOptions = {}): Promise<readonly JsonRecord[]> {
    return readModelStatistics(await this.#get("/stats", options));
  }

  /** Runs the model once, with binary tensors both ways. @throws ClientError */
  async infer(request: InferOptions & CallOptions): Promise<InferResult> {
    const path = `${this.#path}/infer`;
    const { body, jsonLength } = encodeInferRequest(request);
    const headers = { "content-type": "application/octet-stream", [JSON_LENGTH_HEADER]: String(jsonLength) };
    return readResult(await this.#transport.read({ method: "POST", path, headers, body }, request), path);
  }

  /** One response by the names of the model's tensors, e.g. the whole text of a language model. @throws ClientError */
  async generate(body: JsonRecord, options: CallOptions = {}): Promise<JsonRecord> {
    const path = `${this.#path}/generate`;
    const call = { method: "POST", path, headers: JSON_TYPE, body: encodeJson(body) } as const;
    const { bytes } = await this.#transport.read(call, options);
    return expectNoError(parseJsonRecord(bytes, path), 200);
  }

  /** Like `generate()`, as a stream of responses. The call begins with the iteration and ends with it. @throws ClientError */
  async *generateStream(body: JsonRecord, options: CallOptions = {}): AsyncGenerator<JsonRecord, void, undefined> {
    const path = `${this.#path}/generate_stream`;
    const headers = { ...JSON_TYPE, accept: "text/event-stream" };
    const call = { method: "POST", path, headers, body: encodeJson(body) } as const;
    for await (const event of this.#transport.events(call, options)) {
      yield expectNoError(parseJsonRecord(event, path), 200);
    }
  }

  async #get(suffix: string, options: CallOptions): Promise<JsonRecord> {
    const path = `${this.#path}${suffix}`;
    const { bytes } = await this.#transport.read({ method: "GET", path }, options);
    return parseJsonRecord(bytes, path);
  }
}

/** A model error after the first bytes of a response comes with status 200. */
function expectNoError(document: JsonRecord, status: number): JsonRecord {
  const message = errorIn(document);
  if (message !== undefined) throw new ClientError("server", message, status);
  return document;
}

function readResult({ bytes, headers }: HttpResponse, path: string): InferResult {
  const length = headers.get(JSON_LENGTH_HEADER);
  if (length !== null && !/^\d{1,15}$/.test(length)) {
    throw new ClientError("protocol", `${path}: the header ${JSON_LENGTH_HEADER} is '${length}', not a length`);
  }
  try {
    return new InferResult(readV2Response(bytes, length === null ? bytes.length : Number(length)));
  } catch (error) {
    if (!isBadResponse(error)) throw error;
    throw new ClientError("protocol", `${path}: ${error.message}`, undefined, { cause: error });
  }
}

function isBadResponse(error: unknown): error is Error {
  return error instanceof V2ResponseError || error instanceof JsonSyntaxError || error instanceof JsonLimitError;
}
