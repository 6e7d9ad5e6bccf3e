/** Owns the readers and writers of the front end, and decides which work is done at once and which in slices. */
import { InferRequestReader, type JsonInferRequest, JsonReader, JsonTensorReader, JsonWriter } from "@nereid/wire";
import type { InferResponse } from "../../core/infer-response.ts";
import type { ServedModel } from "../../core/model-server.ts";
import { type EncodedInfer, encodeInfer, type OutputForms } from "./encode-infer.ts";
import { JSON_LIMITS, jsonFailure } from "./json-access.ts";
import { runAtOnce, runInTurns } from "./slices.ts";

/** Texts up to this size take less than about 10 ms and are read in one go, by the one shared reader. */
export const MAX_BYTES_AT_ONCE = 1_048_576;
/** The same for outputs that are written, where a byte becomes up to five characters. */
const MAX_OUTPUT_BYTES_AT_ONCE = 262_144;

export class InferCodec {
  readonly #requests = new InferRequestReader(JSON_LIMITS);
  readonly #writer = new JsonWriter();
  readonly json: JsonReader = new JsonReader(JSON_LIMITS);
  readonly tensors: JsonTensorReader = new JsonTensorReader(this.json);

  /** The shared writer: for what is begun and finished without a pause. */
  get writer(): JsonWriter {
    return this.#writer;
  }

  /** @throws ServerError */
  readRequest(bytes: Uint8Array): JsonInferRequest | Promise<JsonInferRequest> {
    if (bytes.length > MAX_BYTES_AT_ONCE) return this.#readInTurns(bytes);
    try {
      return runAtOnce(this.#requests.read(bytes));
    } catch (error) {
      throw jsonFailure(error);
    }
  }

  async #readInTurns(bytes: Uint8Array): Promise<JsonInferRequest> {
    try {
      return await runInTurns(new InferRequestReader(JSON_LIMITS).read(bytes));
    } catch (error) {
      throw jsonFailure(error);
    }
  }

  /** @throws ServerError */
  writeResponse(
    response: InferResponse,
    wanted: OutputForms,
    served: ServedModel,
  ): EncodedInfer | Promise<EncodedInfer> {
    if (outputBytes(response) > MAX_OUTPUT_BYTES_AT_ONCE) {
      return runInTurns(encodeInfer(new JsonWriter(), response, wanted, served));
    }
    return runAtOnce(encodeInfer(this.#writer, response, wanted, served));
  }
}

export function outputBytes(response: InferResponse): number {
  let numBytes = 0;
  for (const output of response.outputs) numBytes += output.data.length;
  return numBytes;
}
