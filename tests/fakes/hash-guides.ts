/** Guides without a grammar: what may come next follows from a number that each token changes. Masks come some turns later. */
import { invalidArgument } from "../../server/src/core/server-error.ts";
import type { GuideSession, Guides } from "../../server/src/engine/guide/guides.ts";
import type { Guide } from "../../server/src/engine/request/generate.ts";

const STATES = 97;
/** The state in which a guide ends with an error. */
const FAULTY = 89;
/** Tokens that a guide says are forced, at most. */
const MAX_FORCED = 5;

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

interface ForcedToken {
  readonly token: number;
  /** State behind it. */
  readonly state: number;
}

class HashGuideSession implements GuideSession {
  readonly #vocabSize: number;
  readonly #endIds: Int32Array;
  #state: number;
  /** As of the last time that nothing was pending. */
  #run: readonly ForcedToken[] = [];
  /** Tokens of it accepted since; undefined: another token came. */
  #numPassed: number | undefined = 0;
  #mask: Int32Array;
  #pending: Promise<void> | undefined;
  #failure: Error | undefined;

  constructor(vocabSize: number, endIds: Int32Array, state: number) {
    this.#vocabSize = vocabSize;
    this.#endIds = endIds;
    this.#state = state;
    this.#mask = this.#maskOf(state);
    this.#run = this.#forcedIn(state);
  }

  get mask(): Int32Array {
    return this.#mask;
  }

  get forced(): Int32Array {
    return Int32Array.from(this.#pending === undefined ? this.#run : [], ({ token }) => token);
  }

  maskBehind(index: number): Int32Array {
    return this.#maskOf(this.#run[index]?.state ?? 0);
  }

  get pending(): Promise<void> | undefined {
    return this.#pending;
  }

  get failure(): Error | undefined {
    return this.#failure;
  }

  accept(token: number): void {
    const isKnown = this.#pending === undefined || (this.#numPassed ?? 0) > 0;
    if (!isKnown) throw new Error("a token is accepted while the mask before is made");
    if (!this.#allows(this.#state, token))
      throw new Error(`token ${token} is accepted, which state ${this.#state} forbids`);
    const isOnRun = this.#numPassed !== undefined && this.#run[this.#numPassed]?.token === token;
    this.#numPassed = isOnRun ? (this.#numPassed ?? 0) + 1 : undefined;
    this.#state = this.#nextOf(this.#state, token);
    this.#mask = isOnRun ? this.#maskOf(this.#state) : new Int32Array(this.#mask.length);
    this.#pending ??= this.#later();
  }

  close(): void {
    this.#mask.fill(0);
  }

  async #later(): Promise<void> {
    await Promise.resolve(); // so that it is pending when accept() returns
    for (let turn = this.#state % 4; turn > 0; turn--) await new Promise<void>((resolve) => setImmediate(resolve));
    this.#mask = this.#maskOf(this.#state);
    this.#run = this.#forcedIn(this.#state);
    this.#numPassed = 0;
    if (this.#state === FAULTY) this.#failure = invalidArgument("the guide is at fault");
    this.#pending = undefined;
  }

  /** Tokens that often come true, without those behind which it fails. */
  #forcedIn(start: number): readonly ForcedToken[] {
    const run: ForcedToken[] = [];
    for (let state = start; run.length < start % (MAX_FORCED + 1); ) {
      const from = state;
      const token = Array.from({ length: this.#vocabSize }, (_, id) => id).find(
        (id) => this.#allows(from, id) && !this.#endIds.includes(id),
      );
      if (token === undefined) break;
      state = this.#nextOf(state, token);
      if (state === FAULTY) break;
      run.push({ token, state });
    }
    return run;
  }

  #nextOf(state: number, token: number): number {
    return (state * 31 + token + 7) % STATES;
  }

  #maskOf(state: number): Int32Array {
    const mask = new Int32Array(Math.ceil(this.#vocabSize / 32));
    for (let id = 0; id < this.#vocabSize; id++) {
      if (this.#allows(state, id)) mask[id >> 5] = (mask[id >> 5] ?? 0) | (1 << (id & 31));
    }
    return mask;
  }

  #allows(state: number, id: number): boolean {
    if (this.#endIds.includes(id)) return state % 5 === 0;
    return id === state % this.#vocabSize || (id * 7 + state) % 3 === 0;
  }
}
