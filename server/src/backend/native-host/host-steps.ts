/** Steps that a host does once for an instance, and how they ended: initialize it, close it. */
import { ServerError } from "../../core/server-error.ts";

type Step = "initialize" | "close";

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: ServerError) => void;
}

export class HostSteps {
  readonly #waiting = new Map<string, Waiting>();

  /** Settles when the host has reported the step's end. */
  await(step: Step, instance: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.set(`${step} ${instance}`, { resolve, reject });
    });
  }

  /** `action` throws what the host reported. @throws RangeError when nobody asked for the step */
  ended(step: Step, instance: number, action: () => void): void {
    const key = `${step} ${instance}`;
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) throw new RangeError(`the host ended a step that it was not asked for: ${key}`);
    this.#waiting.delete(key);
    try {
      action();
      waiting.resolve();
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      waiting.reject(error);
    }
  }

  failAll(error: ServerError): void {
    for (const waiting of this.#waiting.values()) waiting.reject(error);
    this.#waiting.clear();
  }
}
