/**
 * Requests that go to one instance of a model in their order (Triton's sequence extension). Each waits for the one before it, so
 * that none overtakes another on a second connection.
 */
import type { InferCallOptions, InferOptions } from "./infer-request.ts";
import type { InferResult } from "./infer-result.ts";
import type { ModelTypes } from "./model-types.ts";

/** `sequence` is set by the sequence itself; hedging would run a request twice. */
export type SequenceCall<M extends ModelTypes> = Omit<
  InferOptions<M> & InferCallOptions,
  "sequence" | "hedge" | "isIdempotent"
>;

type Infer<M extends ModelTypes> = (options: InferOptions<M> & InferCallOptions) => Promise<InferResult<M>>;

const RANDOM_BITS = 52;

export class InferSequence<M extends ModelTypes = ModelTypes> {
  readonly id: number | bigint | string;
  readonly #infer: Infer<M>;
  #isStarted = false;
  #isEnded = false;
  #last: Promise<unknown> = Promise.resolve();

  /** @throws RangeError for an id that means none */
  constructor(infer: Infer<M>, id: number | bigint | string = 1 + Math.floor(Math.random() * 2 ** RANDOM_BITS)) {
    if (id === 0 || id === 0n || id === "") throw new RangeError("id of a sequence: 0 and '' mean none");
    this.#infer = infer;
    this.id = id;
  }

  /** The next request. The first one starts the sequence. @throws RangeError after the end */
  infer(options: SequenceCall<M>): Promise<InferResult<M>> {
    return this.#next(options, false);
  }

  /** The last request. @throws RangeError after the end */
  end(options: SequenceCall<M>): Promise<InferResult<M>> {
    return this.#next(options, true);
  }

  async #next(options: SequenceCall<M>, isEnd: boolean): Promise<InferResult<M>> {
    if (this.#isEnded) throw new RangeError(`sequence ${this.id} has ended`);
    this.#isEnded = isEnd;
    const turn = this.#last.then(() => this.#send(options, isEnd));
    // A failed request does not fail the next one: the server keeps the sequence until it is idle for too long.
    this.#last = turn.catch(() => undefined);
    return await turn;
  }

  async #send(options: SequenceCall<M>, isEnd: boolean): Promise<InferResult<M>> {
    const sequence = { id: this.id, isStart: !this.#isStarted, isEnd };
    const call: InferOptions<M> & InferCallOptions = { ...options, sequence };
    const result = await this.#infer(call);
    this.#isStarted = true;
    return result;
  }
}
