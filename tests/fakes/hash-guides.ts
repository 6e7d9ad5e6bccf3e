/** Guides without a grammar: what may come next follows from a number that each token changes. Masks come some turns later. */
import { invalidArgument } from "../../server/src/core/server-error.ts";
import type { GuideSession, Guides } from "../../server/src/engine/guide/guides.ts";
import type { Guide } from "../../server/src/engine/request/generate.ts";

const STATES = 97;
/** States in which a guide ends with an error. */
const FAULTY_EVERY = 89;

export class HashGuides implements Guides {
  readonly #vocabSize: number;

  constructor(vocabSize: number) {
    this.#vocabSize = vocabSize;
  }

  open(guide: Guide, endIds: Int32Array): Promise<GuideSession> {
    return Promise.resolve(new HashGuideSession(this.#vocabSize, endIds, JSON.stringify(guide).length % STATES));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

class HashGuideSession implements GuideSession {
  readonly mask: Int32Array;
  readonly #vocabSize: number;
  readonly #endIds: Int32Array;
  #state: number;
  #pending: Promise<void> | undefined;
  #failure: Error | undefined;

  constructor(vocabSize: number, endIds: Int32Array, state: number) {
    this.mask = new Int32Array(Math.ceil(vocabSize / 32));
    this.#vocabSize = vocabSize;
    this.#endIds = endIds;
    this.#state = state;
    this.#fill();
  }

  get pending(): Promise<void> | undefined {
    return this.#pending;
  }

  get failure(): Error | undefined {
    return this.#failure;
  }

  accept(token: number): void {
    if (this.#pending !== undefined) throw new Error("a token is accepted while the mask before is made");
    if (!this.#allows(token)) throw new Error(`token ${token} is accepted, which state ${this.#state} forbids`);
    this.#state = (this.#state * 31 + token + 7) % STATES;
    this.mask.fill(0);
    this.#pending = this.#later();
  }

  close(): void {
    this.mask.fill(0);
  }

  async #later(): Promise<void> {
    await Promise.resolve(); // so that it is pending when accept() returns
    for (let turn = this.#state % 4; turn > 0; turn--) await new Promise<void>((resolve) => setImmediate(resolve));
    this.#fill();
    if (this.#state === FAULTY_EVERY) this.#failure = invalidArgument("the guide is at fault");
    this.#pending = undefined;
  }

  #fill(): void {
    for (let id = 0; id < this.#vocabSize; id++) {
      if (this.#allows(id)) this.mask[id >> 5] = (this.mask[id >> 5] ?? 0) | (1 << (id & 31));
    }
  }

  #allows(id: number): boolean {
    if (this.#endIds.includes(id)) return this.#state % 5 === 0;
    return id === this.#state % this.#vocabSize || (id * 7 + this.#state) % 3 === 0;
  }
}
