/**
 * Many requests and responses on one call (Triton's ModelStreamInfer). Its user ends or cancels it. Source: KServe V2,
 * grpc_service.proto.
 */
import type { ClientError } from "../client-error.ts";
import { type InferOptions, type InferRequest, regionsOf } from "../infer-request.ts";
import type { InferResult } from "../infer-result.ts";
import type { ModelTypes } from "../model-types.ts";
import type { OpenCall } from "./grpc-transport.ts";
import { encodeInferMessage, type InferMessageReader } from "./infer-message.ts";

export class InferStream<M extends ModelTypes = ModelTypes> implements AsyncDisposable {
  readonly #open: OpenCall;
  readonly #reader: InferMessageReader;
  readonly #model: string;
  readonly #encode: (request: InferOptions<M>) => InferRequest;
  /** Outputs of the requests so far that lie in shared memory. */
  readonly #regions = new Map<string, string>();

  constructor(
    open: OpenCall,
    reader: InferMessageReader,
    model: string,
    encode: (request: InferOptions<M>) => InferRequest,
  ) {
    this.#open = open;
    this.#reader = reader;
    this.#model = model;
    this.#encode = encode;
  }

  /** Resolves when the connection has room for more. A lost connection shows when responses are read. */
  async send(request: InferOptions<M>): Promise<void> {
    const outgoing = this.#encode(request);
    for (const [name, region] of regionsOf(outgoing)) this.#regions.set(name, region);
    await this.#open.call.send(encodeInferMessage(outgoing));
  }

  /** No further request follows. The responses end with those of the requests so far. */
  end(): void {
    this.#open.call.endSending();
  }

  /** Ends the call at once. */
  cancel(): void {
    this.#open.call.cancel();
    this.#open.deadline.end();
  }

  /** Responses in the order of their requests, or as they come from a decoupled model. @throws ClientError */
  async *[Symbol.asyncIterator](): AsyncGenerator<InferResult<M> | ClientError, void, undefined> {
    const { call, deadline, explain } = this.#open;
    try {
      for await (const message of call.messages()) {
        yield this.#reader.streamed<M>(message, this.#model, this.#regions);
      }
    } catch (error) {
      throw explain(error);
    } finally {
      deadline.end();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cancel();
  }
}
