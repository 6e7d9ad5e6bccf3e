/** The responses of one generation, in order; the reader's end cancels the rest. Written without generators: each token passes here. */
import { bytesElements } from "../core/bytes-tensor.ts";
import type { InferResponse } from "../core/infer-response.ts";
import type { ServedModel, TensorMetadata } from "../core/model-server.ts";
import { forEachResponse, ResponseStream } from "../core/response-stream.ts";
import type { Tensor } from "../core/tensor.ts";
import type { TextInferRequest } from "./text-infer-request.ts";

/** The reader wants no more. */
export const END: unique symbol = Symbol("end");

export class Responses {
  readonly #model: ServedModel;
  readonly #request: TextInferRequest;
  #iterator: AsyncIterator<InferResponse> | undefined;
  /** The last response was read: there is nothing left to cancel. */
  #isOver = false;

  constructor(model: ServedModel, request: TextInferRequest) {
    this.#model = model;
    this.#request = request;
  }

  /** Undefined behind the last. @throws ServerError */
  async next(): Promise<InferResponse | undefined> {
    this.#iterator ??= this.#model.infer(this.#request)[Symbol.asyncIterator]();
    const { done, value } = await this.#iterator.next();
    if (done === true || value.final) this.#isOver = true;
    if (done === true) return undefined;
    if (value.error !== undefined) throw value.error;
    return value;
  }

  /**
   * Responses behind those that were read, each in the call of its producer: a promise a token costs more than the token.
   * `take` ends it with `END`. @throws ServerError
   */
  async deliver(take: (response: InferResponse) => Promise<void> | undefined | typeof END): Promise<void> {
    this.#iterator ??= this.#model.infer(this.#request)[Symbol.asyncIterator]();
    const iterator = this.#iterator;
    const all = iterator instanceof ResponseStream ? iterator : { [Symbol.asyncIterator]: () => iterator };
    try {
      await forEachResponse(all, (response) => {
        if (response.final) this.#isOver = true;
        if (response.error !== undefined) throw response.error;
        const behind = take(response);
        if (behind === END) throw END;
        return behind;
      });
    } catch (error) {
      if (error !== END) throw error;
    }
  }

  /** Cancels what still runs. */
  async return(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#request.cancel();
    await this.#iterator?.return?.();
  }
}

export function outputOf(response: InferResponse, output: TensorMetadata | undefined): Tensor | undefined {
  if (output === undefined) return undefined;
  for (const tensor of response.outputs) if (tensor.name === output.name) return tensor;
  return undefined;
}

/** Values of an integer tensor of 32 or 64 bits. */
export function integers({ data, datatype }: Tensor): Int32Array {
  const size = datatype === "INT64" || datatype === "UINT64" ? 8 : 4;
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const values = new Int32Array(data.byteLength / size);
  for (let i = 0; i < values.length; i++) values[i] = view.getInt32(i * size, true);
  return values;
}

export function floats({ data }: Tensor): Float32Array {
  return new Float32Array(new Uint8Array(data).buffer);
}

const LENGTH_BYTES = 4;

/** The first text of a BYTES tensor; most have one. Buffers decode short texts several times faster than `TextDecoder`. */
export function firstText(tensor: Tensor): string {
  const { data } = tensor;
  const isOne = data.length >= LENGTH_BYTES && lengthAt(data) === data.length - LENGTH_BYTES;
  if (isOne) return utf8(data.subarray(LENGTH_BYTES));
  const [first] = bytesElements(tensor);
  return first === undefined ? "" : utf8(first);
}

function lengthAt(data: Uint8Array): number {
  const a = data[0] ?? 0;
  const b = data[1] ?? 0;
  const c = data[2] ?? 0;
  const d = data[3] ?? 0;
  return a + b * 0x100 + c * 0x1_0000 + d * 0x100_0000;
}

function utf8({ buffer, byteOffset, length }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, length).toString("utf8");
}

export function firstInteger(tensor: Tensor | undefined): number | undefined {
  return tensor === undefined || tensor.datatype === "BYTES" ? undefined : integers(tensor)[0];
}
