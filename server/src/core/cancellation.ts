/** Cancellation of a request. Its `AbortSignal` is created on demand: most requests end before. */

export class Cancellation {
  #controller: AbortController | undefined;
  #isCancelled = false;
  #followers: Cancellation[] | undefined;

  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#isCancelled) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#controller?.abort();
    for (const follower of this.#followers?.splice(0) ?? []) follower.cancel();
  }

  /** Cancels the other one with this one. Two signals that are linked cost five times as much. */
  lead(follower: Cancellation): void {
    if (this.#isCancelled) follower.cancel();
    else if (this.#followers === undefined) this.#followers = [follower];
    else this.#followers.push(follower);
  }
}
