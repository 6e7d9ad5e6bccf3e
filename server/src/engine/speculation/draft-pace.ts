/**
 * How many tokens are worth guessing for a sequence, learnt from how its last guesses fared. A guess that fails costs the
 * time of a row and nothing else: what comes out does not depend on any of this. Numbers in, numbers out.
 */

const FIRST_LENGTH = 4;
/** Tokens without a guess after two or more failures in a row: 1, 2, 4 and so on up to this. */
const LONGEST_PAUSE = 32;

export class DraftPace {
  #length = FIRST_LENGTH;
  #pause = 0;
  #nextPause = 1;
  #hasFailed = false;

  /** Tokens to guess now, at most `most`. */
  next(most: number): number {
    return this.#pause > 0 ? 0 : Math.min(most, this.#length);
  }

  /** After every token, or several with guesses among them. */
  record(drafted: number, accepted: number): void {
    if (drafted === 0) {
      this.#pause = Math.max(0, this.#pause - 1);
    } else if (accepted > 0) {
      this.#hasFailed = false;
      this.#nextPause = 1;
      this.#length = accepted === drafted ? Math.max(this.#length, drafted * 2) : accepted + 1;
    } else {
      this.#fail();
    }
  }

  #fail(): void {
    this.#length = 1;
    if (this.#hasFailed) {
      this.#pause = this.#nextPause;
      this.#nextPause = Math.min(LONGEST_PAUSE, this.#nextPause * 2);
    }
    this.#hasFailed = true;
  }
}
