/**
 * POST /v2/models/M/infer: from the body to an `InferRequest`, and from its one response to the answer (KServe V2,
 * HTTP/REST).
 */
import type { ParameterValue } from "../../../core/infer-request.ts";
import type { InferResponse } from "../../../core/infer-response.ts";
import { MAX_HTTP_BINARY_BODY_BYTES } from "../../../core/limits.ts";
import type { ModelServer, ServedModel } from "../../../core/model-server.ts";
import { invalidArgument, isFailureOnceTaken, ServerError } from "../../../core/server-error.ts";
import { LoopTurn } from "../../loop-turn.ts";
import { meteredModel } from "../../metered-infer.ts";
import { RequestMemory } from "../../request-memory.ts";
import type { SharedMemoryRegions } from "../../shared-memory.ts";
import { forwardHeaders } from "../forward-headers.ts";
import type { HttpCall, Reserve } from "../http-call.ts";
import { bytesReply, errorReply, type HttpReply } from "../http-reply.ts";
import { MIN_TEXT_BYTES } from "../json/json-threads.ts";
import { startHttpTrace } from "../trace-calls.ts";
import type { Lease } from "../transport/buffer-pool.ts";
import { compressBody, inflateBody, requestEncoding, responseEncoding } from "../transport/compression.ts";
import { decodeInfer } from "./decode-infer.ts";
import type { EncodedInfer } from "./encode-infer.ts";
import { type DecodedInfer, HttpInferRequest } from "./http-infer-request.ts";
import type { JsonInferCodec } from "./infer-codec.ts";
import { decodeRawInfer } from "./raw-infer.ts";

const HEADER_LENGTH = "inference-header-content-length";
const NO_BYTES: Buffer = Buffer.alloc(0);
/** As C's `strtol` reads a number: what follows it is ignored. Source: ISO C17, 7.22.1.4. */
const LEADING_INTEGER = /^[ \t\n\v\f\r]*([+-]?[0-9]+)/;

export interface InferOptions {
  readonly maxInputBytes: number;
  /** Headers whose names match become request parameters. */
  readonly forwardPattern: RegExp | undefined;
}

export class InferHandler {
  readonly #server: ModelServer;
  readonly #codec: JsonInferCodec;
  readonly #options: InferOptions;
  readonly #regions: SharedMemoryRegions;
  /** For all requests where no region can be registered: finds none and holds none. */
  readonly #noMemory: RequestMemory;
  readonly #turn = new LoopTurn();

  constructor(server: ModelServer, codec: JsonInferCodec, options: InferOptions, regions: SharedMemoryRegions) {
    this.#server = server;
    this.#codec = codec;
    this.#options = options;
    this.#regions = regions;
    this.#noMemory = new RequestMemory(regions);
  }

  async handle(model: string, version: string, call: HttpCall): Promise<HttpReply> {
    const served = this.#server.model(model, version);
    if (served.decoupled) {
      throw new ServerError("unsupported", "HTTP end point doesn't support models with decoupled transaction policy");
    }
    if (requestEncoding(call.header("content-encoding")) === undefined) {
      return errorReply(501, "text/plain", "Unsupported compression type", ["Accept-Encoding", "gzip, deflate"]);
    }
    startHttpTrace(this.#server.tracing, served.name, call);
    const memory = this.#regions.isAllowed ? new RequestMemory(this.#regions) : this.#noMemory;
    try {
      const decoded = await this.#decode(call, served, memory);
      const response = await this.#infer(new HttpInferRequest(model, version, decoded, call), served, call);
      const wanted = memory.isUsed ? { forms: decoded.forms, defaultForm: decoded.defaultForm, memory } : decoded;
      const encoded = this.#codec.writeResponse(response, wanted, served, call);
      const answer = this.#reply(encoded instanceof Promise ? await encoded : encoded, call);
      const reply = answer instanceof Promise ? await answer : answer;
      return response.release === undefined ? reply : { ...reply, release: response.release };
    } finally {
      memory.release();
    }
  }

  #decode(call: HttpCall, served: ServedModel, memory: RequestMemory): Promise<DecodedInfer> {
    return isLargeText(call) ? this.#decodeLeased(call, served, memory) : this.#decodeBody(call, served, memory);
  }

  /** The text is not needed once it is read, so it may lie in leased memory. */
  async #decodeLeased(call: HttpCall, served: ServedModel, memory: RequestMemory): Promise<DecodedInfer> {
    let lease: Lease | undefined;
    try {
      return await this.#decodeBody(call, served, memory, (numBytes) => {
        lease = this.#codec.lease(numBytes);
        return lease?.bytes;
      });
    } finally {
      lease?.release();
    }
  }

  async #decodeBody(
    call: HttpCall,
    served: ServedModel,
    memory: RequestMemory,
    reserve?: Reserve,
  ): Promise<DecodedInfer> {
    const { maxInputBytes } = this.#options;
    const lengthText = call.header(HEADER_LENGTH);
    const isBinary = lengthText !== undefined && lengthText !== "0";
    const encoding = requestEncoding(call.header("content-encoding")) ?? "identity";
    const body = await call.body(isBinary ? MAX_HTTP_BINARY_BODY_BYTES : maxInputBytes, reserve);
    call.trace?.mark("HTTP_RECV_END", performance.now());
    const bytes = encoding === "identity" ? body.bytes : await inflateBody(body.bytes, encoding, maxInputBytes, call);
    const size = encoding === "identity" ? body.size : bytes.length;
    const headerLength = lengthText === undefined ? size : parseHeaderLength(lengthText, size);
    call.errorType = "application/json";
    expectSize(headerLength, size, bytes.length, maxInputBytes);
    if (headerLength === 0) return this.#forward(decodeRawInfer(bytes, served), call);
    const isWhole = headerLength === size;
    const read = this.#codec.readRequest(isWhole ? bytes : bytes.subarray(0, headerLength), call);
    const decoded = decodeInfer(read instanceof Promise ? await read : read, {
      modelName: served.name,
      tail: isWhole ? NO_BYTES : bytes.subarray(headerLength),
      maxInputBytes,
      memory,
      copiesRegions: served.config.response_cache?.enable === true,
    });
    return this.#forward(decoded, call);
  }

  #forward(decoded: DecodedInfer, call: HttpCall): DecodedInfer {
    const { forwardPattern } = this.#options;
    if (forwardPattern === undefined) return decoded;
    const parameters = new Map<string, ParameterValue>(decoded.parameters);
    forwardHeaders(forwardPattern, call.rawHeaders, parameters);
    return { ...decoded, parameters };
  }

  /** The one response. From the moment that the request was taken, errors are of the response path. */
  async #infer(request: HttpInferRequest, served: ServedModel, call: HttpCall): Promise<InferResponse> {
    const turn = this.#turn.now();
    try {
      const model = meteredModel(served, call.access, request.inputs);
      const response = await onlyResponse(model.infer(request)[Symbol.asyncIterator]());
      call.errorType = "text/plain";
      return response;
    } catch (error) {
      if (this.#turn.hasTurned(turn) || isFailureOnceTaken(error)) call.errorType = "text/plain";
      throw error;
    }
  }

  #reply({ body, headerLength }: EncodedInfer, call: HttpCall): HttpReply | Promise<HttpReply> {
    const contentType = headerLength > 0 ? "application/octet-stream" : "application/json";
    const lengthHeader = headerLength > 0 ? ["Inference-Header-Content-Length", String(headerLength)] : undefined;
    const encoding = responseEncoding(call.header("accept-encoding"));
    if (encoding === "identity") return bytesReply(contentType, body, lengthHeader);
    return compressBody(body, encoding).then((compressed) =>
      bytesReply(contentType, [compressed], ["Content-Encoding", encoding, ...(lengthHeader ?? [])]),
    );
  }
}

/** Nothing but JSON, as it came. */
function isLargeText(call: HttpCall): boolean {
  if (!(Number(call.header("content-length")) >= MIN_TEXT_BYTES)) return false;
  return call.header(HEADER_LENGTH) === undefined && requestEncoding(call.header("content-encoding")) === "identity";
}

async function onlyResponse(responses: AsyncIterator<InferResponse>): Promise<InferResponse> {
  let only: InferResponse | undefined;
  let count = 0;
  for (;;) {
    const step = await responses.next();
    if (step.done === true) break;
    const response = step.value;
    if (response.error !== undefined) throw response.error;
    if (!response.empty) {
      count++;
      only ??= response;
    }
    if (response.final) break;
  }
  if (only === undefined || count !== 1) {
    throw new ServerError("internal", `expected a single response, got ${count}`);
  }
  return only;
}

/** @throws ServerError for a header that is no number or points behind the body */
function parseHeaderLength(text: string, size: number): number {
  const digits = LEADING_INTEGER.exec(text)?.[1];
  if (digits === undefined) throw invalidArgument(`Unable to parse Inference-Header-Content-Length, got: ${text}`);
  const length = Number(digits);
  if (length >= 0 && length <= size) return length;
  throw invalidArgument(`inference header size should be in range (0, ${size}), got: ${text}`);
}

/** @throws ServerError when the JSON, the raw tensor or the whole body is larger than the server takes */
function expectSize(headerLength: number, size: number, kept: number, maxInputBytes: number): void {
  if (headerLength > maxInputBytes) {
    throw invalidArgument(
      `request JSON size of ${headerLength} bytes exceeds the maximum allowed input size of ${maxInputBytes} bytes. Use --http-max-input-size to increase the limit.`,
    );
  }
  if (headerLength === 0 && size > maxInputBytes) {
    throw invalidArgument(
      `Raw input has a byte_size (${size} bytes) that exceeds the maximum allowed value of ${maxInputBytes} bytes. Use --http-max-input-size to increase the limit.`,
    );
  }
  if (kept < size) {
    throw invalidArgument(`request body of ${size} bytes exceeds the maximum of ${MAX_HTTP_BINARY_BODY_BYTES} bytes`);
  }
}
