/** A model over HTTP: what every protocol has, and Triton's generate extension. */
import type { CallOptions } from "../call-options.ts";
import type { InferenceApi } from "../inference-api.ts";
import { encodeJson, type JsonRecord, parseJsonRecord } from "../json-document.ts";
import { ModelHandle } from "../model-handle.ts";
import type { ModelTypes } from "../model-types.ts";
import { expectNoError, JSON_TYPE } from "./http-api.ts";
import { modelPath } from "./paths.ts";
import { errorIn, type HttpCall, type Transport } from "./transport.ts";

export class HttpModelHandle<M extends ModelTypes = ModelTypes> extends ModelHandle<M> {
  readonly #transport: Transport;
  readonly #path: string;

  /** @throws RangeError for a name or version that no path can hold */
  constructor(api: InferenceApi, transport: Transport, name: string, version?: string | number) {
    super(api, name, version);
    this.#transport = transport;
    this.#path = modelPath(name, this.version ?? "");
  }

  /** One response by the names of the model's tensors, e.g. the whole text of a language model. @throws ClientError */
  async generate(body: JsonRecord, options: CallOptions = {}): Promise<JsonRecord> {
    const { bytes } = await this.#transport.read(this.#call("generate", body), options);
    return this.#document(bytes, "generate");
  }

  /** Like `generate()`, as a stream of responses. The call begins with the iteration and ends with it. @throws ClientError */
  async *generateStream(body: JsonRecord, options: CallOptions = {}): AsyncGenerator<JsonRecord, void, undefined> {
    const call = this.#call("generate_stream", body);
    const headers = { ...JSON_TYPE, accept: "text/event-stream" };
    for await (const event of this.#transport.events({ ...call, headers }, options)) {
      yield this.#document(event, "generate_stream");
    }
  }

  #call(action: string, body: JsonRecord): HttpCall {
    const path = `${this.#path}/${action}`;
    return { method: "POST", path, headers: JSON_TYPE, pieces: [encodeJson(body)], model: this.name };
  }

  #document(bytes: Uint8Array, action: string): JsonRecord {
    const document = parseJsonRecord(bytes, `${this.#path}/${action}`);
    return expectNoError(document, errorIn(document), this.name);
  }
}
