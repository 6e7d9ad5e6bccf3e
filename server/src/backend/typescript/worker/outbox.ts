/** Answers on their way to the server: what is ready in one turn goes as one message. */
import type { Tensor } from "../../../core/tensor.ts";
import type { PackedResponse } from "../messages.ts";
import { packError } from "../model-error.ts";
import { TensorPacker } from "../pack-tensors.ts";
import type { ThreadLink } from "./thread-link.ts";

export class Outbox {
  readonly #link: ThreadLink;
  #packer: TensorPacker = new TensorPacker();
  #responses: PackedResponse[] = [];
  #isScheduled = false;

  constructor(link: ThreadLink) {
    this.#link = link;
  }

  answer(key: number, tensors: readonly Tensor[], final: boolean): void {
    this.#add({ key, final, isEmpty: false, outputs: this.#packer.addAll(tensors) });
  }

  end(key: number): void {
    this.#add({ key, final: true, isEmpty: true, outputs: [] });
  }

  fail(key: number, thrown: unknown): void {
    this.#add({ key, final: true, isEmpty: false, outputs: [], error: packError(thrown) });
  }

  /** The batch is over: with all that was put in before. */
  executed(batchId: number): void {
    this.#flush(batchId);
  }

  #add(response: PackedResponse): void {
    this.#responses.push(response);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // After the turn, so that a batch that ends in it takes its answers along.
    setImmediate(() => {
      if (this.#responses.length > 0) this.#flush(0);
      this.#isScheduled = false;
    });
  }

  #flush(executed: number): void {
    const buffer = this.#packer.finish();
    const responses = this.#responses;
    this.#packer = new TensorPacker();
    this.#responses = [];
    this.#link.post({ type: "responses", responses, executed, buffer }, [buffer]);
  }
}
