/**
 * Owns the readers and writers of the front end, and decides which work is done at once and which in slices (KServe V2,
 * HTTP/REST).
 */
import { InferRequestReader, type JsonInferRequest, JsonReader, JsonTensorReader, JsonWriter } from "@nereid/wire";
import type { InferResponse } from "../../../core/infer-response.ts";
import type { ServedModel } from "../../../core/model-server.ts";
import { ServerError } from "../../../core/server-error.ts";
import type { Tensor } from "../../../core/tensor.ts";
import type { CallLifetime } from "../http-call.ts";
import { JSON_LIMITS, jsonFailure } from "../json/json-access.ts";
import { type JsonThreads, MIN_OUTPUT_BYTES } from "../json/json-threads.ts";
import type { Lease } from "../transport/buffer-pool.ts";
import { ClientGone } from "../transport/read-body.ts";
import { runAtOnce, runInTurns } from "../transport/slices.ts";
import {
  type EncodedInfer,
  encodeInfer,
  type OutputForms,
  type WrittenOutputs,
  writableOutputs,
} from "./encode-infer.ts";

/** Texts up to this size take less than about 10 ms and are read in one go, by the one shared reader. */
export const MAX_BYTES_AT_ONCE = 1_048_576;
/** The same for outputs that are written, where a byte becomes up to five characters. */
const MAX_OUTPUT_BYTES_AT_ONCE = 262_144;

export class JsonInferCodec {
  readonly #requests = new InferRequestReader(JSON_LIMITS);
  readonly #writer = new JsonWriter();
  readonly json: JsonReader = new JsonReader(JSON_LIMITS);
  readonly tensors: JsonTensorReader = new JsonTensorReader(this.json);
  readonly #threads: JsonThreads | undefined;

  /** `threads`: for what is large; absent: everything is done here. */
  constructor(threads?: JsonThreads) {
    this.#threads = threads;
  }

  /** The shared writer: for what is begun and finished without a pause. */
  get writer(): JsonWriter {
    return this.#writer;
  }

  /** Memory for a large text that is to be read; undefined where there is none. */
  lease(numBytes: number): Lease | undefined {
    return this.#threads?.lease(numBytes);
  }

  /** Takes the bytes over: the caller must not read them afterwards. @throws ServerError @throws ClientGone */
  readRequest(bytes: Uint8Array, call?: CallLifetime): JsonInferRequest | Promise<JsonInferRequest> {
    const outcome = this.#threads?.read(bytes, call);
    if (outcome === undefined) return this.#readHere(bytes, call);
    return outcome.then(({ request, text }) => {
      expectOpen(call);
      if (request !== undefined) return request;
      if (text === undefined) throw new ServerError("internal", "the thread that read the request has died");
      return this.#readHere(text, call);
    });
  }

  #readHere(bytes: Uint8Array, call: CallLifetime | undefined): JsonInferRequest | Promise<JsonInferRequest> {
    if (bytes.length > MAX_BYTES_AT_ONCE) return this.#readInTurns(bytes, call);
    try {
      return runAtOnce(this.#requests.read(bytes));
    } catch (error) {
      throw jsonFailure(error);
    }
  }

  async #readInTurns(bytes: Uint8Array, call: CallLifetime | undefined): Promise<JsonInferRequest> {
    try {
      return await runInTurns(new InferRequestReader(JSON_LIMITS).read(bytes), call);
    } catch (error) {
      throw jsonFailure(error);
    }
  }

  /**
   * With the call's `atEnd` the answer may lie in leased memory, which is released at the end of the request.
   * @throws ServerError @throws ClientGone
   */
  writeResponse(
    response: InferResponse,
    wanted: OutputForms,
    served: ServedModel,
    call?: CallLifetime,
  ): EncodedInfer | Promise<EncodedInfer> {
    if (this.#threads !== undefined && outputBytes(response) >= MIN_OUTPUT_BYTES) {
      const written = this.#writeBeside(this.#threads, response, wanted, call);
      if (written !== undefined) {
        return written.then((texts) => {
          expectOpen(call);
          return this.#encode(response, wanted, served, call, texts);
        });
      }
    }
    return this.#encode(response, wanted, served, call);
  }

  #encode(
    response: InferResponse,
    wanted: OutputForms,
    served: ServedModel,
    call: CallLifetime | undefined,
    texts?: WrittenOutputs,
  ): EncodedInfer | Promise<EncodedInfer> {
    if (texts === undefined && outputBytes(response) > MAX_OUTPUT_BYTES_AT_ONCE) {
      return runInTurns(encodeInfer(new JsonWriter(), response, wanted, served), call);
    }
    return runAtOnce(encodeInfer(this.#writer, response, wanted, served, texts));
  }

  /** The elements of large outputs as text, made by threads; undefined when there are none. */
  #writeBeside(
    threads: JsonThreads,
    response: InferResponse,
    wanted: OutputForms,
    call: CallLifetime | undefined,
  ): Promise<WrittenOutputs | undefined> | undefined {
    const tasks = writableOutputs(response, wanted).map(
      ({ tensor, datatype, count }) => [tensor, threads.write(datatype, tensor.data, count, call)] as const,
    );
    if (tasks.every(([, text]) => text === undefined)) return undefined;
    return Promise.all(tasks.map(async ([tensor, text]) => [tensor, await text] as const)).then((done) => {
      const texts = new Map<Tensor, Uint8Array>();
      for (const [tensor, text] of done) if (text !== undefined) texts.set(tensor, text);
      // Without threads a large request is decoded here, in slices.
      return texts.size === done.length ? texts : undefined;
    });
  }
}

export function outputBytes(response: InferResponse): number {
  let numBytes = 0;
  for (const output of response.outputs) numBytes += output.data.length;
  return numBytes;
}

/** Large work for a cancelled request would delay others. @throws ClientGone */
function expectOpen(call: CallLifetime | undefined): void {
  if (call?.isCancelled === true) throw new ClientGone();
}
