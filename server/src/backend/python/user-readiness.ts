/** `is_ready` of a Python model: asked of its process, one question at a time, with a limit. Knows no process. */
import { ServerError } from "../../core/server-error.ts";
import { encodeCheckReady, type Frame, type ReadinessMessage } from "./messages.ts";

const TIMEOUT_MS = 5_000;

export class UserReadiness {
  readonly #name: string;
  readonly #timeoutMs: number;
  #nextNumber = 1;
  #asked:
    | { readonly number: number; readonly answer: Promise<void>; readonly settle: (error?: ServerError) => void }
    | undefined;

  /** `name` is the instance's name in errors to clients. */
  constructor(name: string, timeoutMs: number = TIMEOUT_MS) {
    this.#name = name;
    this.#timeoutMs = timeoutMs;
  }

  /** Concurrent callers share one check. @throws ServerError unavailable with the reason */
  check(send: (frame: Frame) => void): Promise<void> {
    if (this.#asked !== undefined) return this.#asked.answer;
    const number = this.#nextNumber;
    this.#nextNumber += 1;
    let settle: (error?: ServerError) => void = () => undefined;
    const answer = new Promise<void>((resolve, reject) => {
      settle = (error) => (error === undefined ? resolve() : reject(error));
    });
    const timer = setTimeout(
      () => this.#settle(unavailable("Timed out waiting for user-defined is_ready() response")),
      this.#timeoutMs,
    );
    this.#asked = {
      number,
      answer,
      settle(error) {
        clearTimeout(timer);
        settle(error);
      },
    };
    send(encodeCheckReady(number));
    return answer;
  }

  /** An answer that comes too late belongs to no question any more. */
  answered({ number, state, text }: ReadinessMessage): void {
    if (this.#asked?.number !== number) return;
    if (state === "ready") this.#settle(undefined);
    else if (state === "failed")
      this.#settle(unavailable(`Model '${this.#name}' is not ready: is_ready() failed: ${text}`));
    else this.#settle(unavailable(`Model '${this.#name}' is not ready (user-defined check failed).`));
  }

  /** The process has ended. */
  fail(error: ServerError): void {
    this.#settle(error);
  }

  #settle(error: ServerError | undefined): void {
    const asked = this.#asked;
    this.#asked = undefined;
    asked?.settle(error);
  }
}

function unavailable(message: string): ServerError {
  return new ServerError("unavailable", message);
}
