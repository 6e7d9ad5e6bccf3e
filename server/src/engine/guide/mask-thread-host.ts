/**
 * A mask thread from the outside. Requests of one turn of the event loop go out as one message, and come
 * back as one. The thread is given up when it dies, or is silent for too long. It keeps no process alive
 * while it has nothing to do.
 */
import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import type { GuideVocabulary } from "./guide-vocabulary.ts";
import type {
  MaskAnswer,
  MaskFailure,
  MaskJob,
  MaskThreadData,
  MaskThreadReady,
  OpenSession,
} from "./mask-messages.ts";

const PROGRAM: URL = new URL(`./mask-thread${extname(import.meta.url)}`, import.meta.url);
/** Work is counted by the thread itself: this is for work that it does not count, on a machine however busy. */
const SILENCE_LIMIT_MS = 30_000;
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 1536, stackSizeMb: 16 };

/** Settles once all that went out in one message is done, or will never be. */
export class BatchTicket {
  isDone = false;
  readonly done: Promise<void>;
  readonly #resolve: () => void;

  constructor() {
    const { promise, resolve } = withResolvers();
    this.done = promise;
    this.#resolve = resolve;
  }

  finish(): void {
    this.isDone = true;
    this.#resolve();
  }
}

export interface MaskThreadEvents {
  failed(failure: MaskFailure): void;
  /** The thread takes work from now on without delay. */
  ready(vocabulary: GuideVocabulary): void;
  /**
   * The thread is gone; `session` was at work (0: none), and `tickets` are not answered.
   */
  ended(session: number, tickets: readonly BatchTicket[], error: Error): void;
}

export class MaskThreadHost {
  readonly #worker: Worker;
  readonly #events: MaskThreadEvents;
  readonly #current = new Int32Array(new SharedArrayBuffer(4));
  /** That of the next message. */
  #ticket: BatchTicket | undefined;
  #steps: number[] = [];
  /** By the job's id. */
  readonly #sent = new Map<number, BatchTicket>();
  /** Jobs that open a session. */
  readonly #opening = new Set<number>();
  #nextId = 1;
  #timer: NodeJS.Timeout | undefined;
  #isReady = false;
  #hasEnded = false;

  constructor(data: Omit<MaskThreadData, "current">, events: MaskThreadEvents) {
    this.#events = events;
    const workerData: MaskThreadData = { ...data, current: this.#current };
    this.#worker = new Worker(PROGRAM, { workerData, resourceLimits: RESOURCE_LIMITS });
    this.#worker.on("message", (message: MaskThreadReady | MaskAnswer) => {
      if ("vocabulary" in message) this.#onReady(message);
      else this.#onAnswer(message);
    });
    this.#worker.on("error", (error) => this.end(error instanceof Error ? error : new Error(String(error))));
    this.#worker.on("exit", (code) => this.end(new Error(`the mask thread ended with code ${code}`)));
    this.#worker.unref();
    this.#watch();
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  /** Whether a session waits for its first mask from here. */
  get isOpening(): boolean {
    return this.#opening.size > 0;
  }

  open(session: OpenSession): BatchTicket {
    const ticket = new BatchTicket();
    const id = this.#nextId++;
    this.#opening.add(id);
    this.#send({ id, open: session }, ticket);
    return ticket;
  }

  step(session: number, code: number): BatchTicket {
    this.#steps.push(session, code);
    return this.#nextTicket();
  }

  end(error: Error): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearTimeout(this.#timer);
    void this.#worker.terminate();
    const sent = [...this.#sent.values()];
    const tickets = this.#ticket === undefined ? sent : [...sent, this.#ticket];
    this.#events.ended(Atomics.load(this.#current, 0), tickets, error);
  }

  #nextTicket(): BatchTicket {
    if (this.#ticket === undefined) {
      this.#ticket = new BatchTicket();
      queueMicrotask(() => this.#sendSteps());
    }
    return this.#ticket;
  }

  #sendSteps(): void {
    if (this.#ticket === undefined || this.#hasEnded) return;
    this.#send({ id: this.#nextId++, steps: Int32Array.from(this.#steps) }, this.#ticket);
    this.#ticket = undefined;
    this.#steps = [];
  }

  #send(job: MaskJob, ticket: BatchTicket): void {
    this.#sent.set(job.id, ticket);
    this.#worker.ref();
    this.#worker.postMessage(job);
    if (this.#timer === undefined) this.#watch();
  }

  #watch(): void {
    this.#timer = setTimeout(
      () => this.end(new Error(`no mask within ${SILENCE_LIMIT_MS / 1000} s`)),
      SILENCE_LIMIT_MS,
    );
    this.#timer.unref();
  }

  #onReady({ vocabulary }: MaskThreadReady): void {
    if (this.#hasEnded) return;
    this.#isReady = true;
    this.#events.ready(vocabulary);
    this.#waitOn();
  }

  #onAnswer({ id, failures }: MaskAnswer): void {
    if (this.#hasEnded) return;
    for (const failure of failures) this.#events.failed(failure);
    this.#sent.get(id)?.finish();
    this.#sent.delete(id);
    this.#opening.delete(id);
    this.#waitOn();
  }

  /** For the next answer, from now on. */
  #waitOn(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#sent.size > 0) this.#watch();
    else this.#worker.unref();
  }
}

/** `Promise.withResolvers` of ECMAScript 2024, which Node.js 20 lacks. */
function withResolvers(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
