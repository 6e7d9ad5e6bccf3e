/** Slots of the states of sequences, for runners whose models have recurrent layers. It decides which is free; no memory. */
import type { Sequence } from "../request/sequence.ts";

/** The slot of a sequence that has none. */
export const NO_STATE = -1;

export class StateSlots {
  readonly #free: number[];
  readonly #numSlots: number;

  /** `numSlots`: undefined for runners without states, whose sequences never lack a slot. */
  constructor(numSlots: number | undefined) {
    this.#numSlots = numSlots ?? 0;
    this.#free = Array.from({ length: this.#numSlots }, (_, i) => this.#numSlots - 1 - i);
  }

  /** Another sequence gets a slot, or needs none. */
  get hasRoom(): boolean {
    return this.#numSlots === 0 || this.#free.length > 0;
  }

  /** @throws when there is none: the caller has asked */
  take(sequence: Sequence): void {
    if (this.#numSlots === 0) return;
    const slot = this.#free.pop();
    if (slot === undefined || sequence.state !== NO_STATE) throw new Error("state slots: none is free, or one is held");
    sequence.state = slot;
  }

  release(sequence: Sequence): void {
    if (sequence.state === NO_STATE) return;
    this.#free.push(sequence.state);
    sequence.state = NO_STATE;
  }

  /** @throws when a slot is lost or held twice */
  checkIntegrity(running: readonly Sequence[]): void {
    const held = running.map(({ state }) => state).filter((state) => state !== NO_STATE);
    const all = new Set([...this.#free, ...held]);
    if (all.size !== this.#numSlots || this.#free.length + held.length !== this.#numSlots)
      throw new Error(`state slots: ${held.length} held and ${this.#free.length} free of ${this.#numSlots}`);
  }
}
