/**
 * Model versions that no longer accept requests but still answer accepted ones, and the work that follows their end.
 */
import type { Logger } from "../observe/log.ts";
import type { ModelVersion } from "./model-version.ts";

export class DrainingVersions {
  readonly #log: Logger;
  readonly #pending = new Set<Promise<void>>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Closes a version; resolves, never rejecting, when it has drained and `then` was called. */
  close(served: ModelVersion, then: () => void = () => undefined): Promise<void> {
    const closing = served.close().catch((error: unknown) => {
      const text = `model '${served.name}' version ${served.version} did not unload cleanly: ${String(error)}`;
      this.#log.error("model_lifecycle", text);
    });
    return this.track(closing.then(then));
  }

  /** Adds work that `settled` waits for. It must not reject. */
  track(ending: Promise<void>): Promise<void> {
    const tracked = ending.finally(() => this.#pending.delete(tracked));
    this.#pending.add(tracked);
    return tracked;
  }

  /** Resolves when no version is draining. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }
}
