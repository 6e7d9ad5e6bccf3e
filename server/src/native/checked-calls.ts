/**
 * Calls of C functions that return 0, or another number and leave a text. The text belongs to the thread of the call:
 * after a call on another thread it cannot be read, so a failed one is made again on this thread.
 */
import type { NativeFunction } from "./ffi.ts";

export class CheckedCalls {
  readonly #failure: (status: number) => Error;

  /** `failure` reads the text of the latest call on this thread. */
  constructor(failure: (status: number) => Error) {
    this.#failure = failure;
  }

  /** @throws Error with the library's text */
  check(status: number): void {
    if (status !== 0) throw this.#failure(status);
  }

  /** On another thread; `args` are referenced until it has settled. @throws Error with the library's text */
  async callAsync<Args extends unknown[]>(func: NativeFunction<Args, number>, ...args: Args): Promise<void> {
    const status = await new Promise<number>((resolve, reject) => {
      func.async(...args, (error, result) => {
        if (error === null) resolve(result);
        else reject(error);
      });
    });
    if (status !== 0) this.check(func(...args));
  }
}
