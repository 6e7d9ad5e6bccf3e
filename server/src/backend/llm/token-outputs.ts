/**
 * The output tensors of a stream that sends one token a response: only the token and its log-probabilities change, so all
 * other tensors are made once and shared by the responses. `bench:streaming` shows the effect. Pure.
 */
import type { Tensor } from "../../core/tensor.ts";

/** Outputs that differ from token to token. Each has one element of four bytes. */
const CHANGING = ["output_ids", "output_log_probs", "cum_log_probs"] as const;

const SLAB_BYTES = 16_384;
const ELEMENT_BYTES = 4;

/** A token as the engine gives it; log-probabilities are 0 when not asked for. */
export interface StreamedToken {
  readonly id: number;
  readonly logProb: number;
  readonly cumLogProb: number;
}

/** Elements of four bytes cut from larger buffers: a buffer of its own for each costs more than the element. */
export class ElementSlab {
  #slab = new DataView(new ArrayBuffer(SLAB_BYTES));
  #at = 0;

  int(value: number): Uint8Array {
    const at = this.#next();
    this.#slab.setInt32(at, value, true);
    return new Uint8Array(this.#slab.buffer, at, ELEMENT_BYTES);
  }

  float(value: number): Uint8Array {
    const at = this.#next();
    this.#slab.setFloat32(at, value, true);
    return new Uint8Array(this.#slab.buffer, at, ELEMENT_BYTES);
  }

  #next(): number {
    if (this.#at === SLAB_BYTES) {
      this.#slab = new DataView(new ArrayBuffer(SLAB_BYTES));
      this.#at = 0;
    }
    const at = this.#at;
    this.#at += ELEMENT_BYTES;
    return at;
  }
}

export class TokenOutputs {
  readonly #first: readonly Tensor[];
  readonly #slab: ElementSlab;
  readonly #idAt: number;
  readonly #logProbAt: number;
  readonly #cumLogProbAt: number;

  /** `first`: the outputs of a response with one token, no log-probabilities among those that change unless `hasLogProbs`. */
  constructor(first: readonly Tensor[], hasLogProbs: boolean, slab: ElementSlab) {
    this.#first = first;
    this.#slab = slab;
    const [id, logProb, cumLogProb] = CHANGING.map((name) => first.findIndex((tensor) => tensor.name === name));
    this.#idAt = id ?? -1;
    this.#logProbAt = hasLogProbs ? (logProb ?? -1) : -1;
    this.#cumLogProbAt = hasLogProbs ? (cumLogProb ?? -1) : -1;
  }

  /** Tensors that do not change are the same objects each time: writers recognize them. */
  of({ id, logProb, cumLogProb }: StreamedToken): readonly Tensor[] {
    const outputs = this.#first.slice();
    this.#replace(outputs, this.#idAt, () => this.#slab.int(id));
    this.#replace(outputs, this.#logProbAt, () => this.#slab.float(logProb));
    this.#replace(outputs, this.#cumLogProbAt, () => this.#slab.float(cumLogProb));
    return outputs;
  }

  #replace(outputs: Tensor[], at: number, make: () => Uint8Array): void {
    const before = outputs[at];
    if (before === undefined) return;
    outputs[at] = { name: before.name, datatype: before.datatype, shape: before.shape, data: make() };
  }
}
