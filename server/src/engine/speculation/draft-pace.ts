/**
 * Adapts the number of draft tokens of a sequence to the acceptance of its last drafts. A rejected draft costs the time
 * of one row and never changes the output. Numbers in, numbers out.
 */

const FIRST_LENGTH = 4;
/** Longest pause, in tokens, after repeated rejections: 1, 2, 4 and so on up to this. */
const LONGEST_PAUSE = 32;

export class DraftPace {
  #length = FIRST_LENGTH;
  #pause = 0;
  #nextPause = 1;
  #hasFailed = false;

  /** Tokens to draft now, at most `most`. */
  next(most: number): number {
    return this.#pause > 0 ? 0 : Math.min(most, this.#length);
  }

  /** Call after every token, or every verified draft. */
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
