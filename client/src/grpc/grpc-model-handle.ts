/**
 * A model over gRPC: what every protocol has, and streams of requests and responses (Triton's ModelStreamInfer).
 * Source: KServe V2, grpc_service.proto.
 */
import type { CallOptions } from "../call-options.ts";
import { ClientError } from "../client-error.ts";
import { type InferCallOptions, type InferOptions, requestOf } from "../infer-request.ts";
import type { InferResult } from "../infer-result.ts";
import type { InferenceApi } from "../inference-api.ts";
import { ModelHandle } from "../model-handle.ts";
import type { ModelTypes } from "../model-types.ts";
import type { GrpcTransport } from "./grpc-transport.ts";
import type { InferMessageReader } from "./infer-message.ts";
import { InferStream } from "./infer-stream.ts";

export class GrpcModelHandle<M extends ModelTypes = ModelTypes> extends ModelHandle<M> {
  readonly #transport: GrpcTransport;
  readonly #reader: InferMessageReader;

  /** @throws RangeError for a name or version that cannot be */
  constructor(
    api: InferenceApi,
    transport: GrpcTransport,
    reader: InferMessageReader,
    name: string,
    version?: string | number,
  ) {
    super(api, name, version);
    this.#transport = transport;
    this.#reader = reader;
  }

  /**
   * The responses of one request, as they come: any number of a decoupled model, one of others. The call begins with the
   * iteration and ends with it. @throws ClientError
   */
  async *inferStream(options: InferOptions<M> & CallOptions): AsyncGenerator<InferResult<M>, void, undefined> {
    const parameters = { ...options.parameters, triton_enable_empty_final_response: true };
    const stream = this.openStream(options);
    try {
      await stream.send({ ...options, parameters });
      stream.end();
      for await (const response of stream) {
        if (response instanceof ClientError) throw response;
        if (response.outputs.length > 0 || !response.isFinal) yield response;
      }
    } finally {
      stream.cancel();
    }
  }

  /** A stream for many requests, e.g. of sequences. An error of one request is a response; the stream goes on. */
  openStream(options: CallOptions = {}): InferStream<M> {
    const open = this.#transport.open("ModelStreamInfer", { model: this.name }, options);
    const encode = (request: InferOptions<M> & InferCallOptions) => requestOf(this.name, this.version ?? "", request);
    return new InferStream(open, this.#reader, this.name, encode);
  }
}
